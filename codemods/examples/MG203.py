# %% changed
pass

# %% left alone: --seed-policy same
pass
