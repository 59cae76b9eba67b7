# %% changed
pass

# %% left alone: --sampling call
pass
