# %% told: --pg-timeout 3600
pass

# %% left alone
pass
