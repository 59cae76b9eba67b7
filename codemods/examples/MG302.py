# %% changed: --sampling call
pass

# %% left alone
pass
