# %% changed
pass

# %% left alone: --to accelerate
pass
