# %% changed: --amp fp16
pass

# %% left alone
pass
