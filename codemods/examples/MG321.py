# %% changed: --sync-bn
pass

# %% left alone
pass
