# %% told: --find-unused
pass

# %% left alone
pass
