# %% changed: --to accelerate
pass

# %% left alone
pass
