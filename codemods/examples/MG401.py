# %% changed: --batch per-gpu
pass

# %% left alone
pass
