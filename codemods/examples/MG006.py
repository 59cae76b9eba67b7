# %% changed in setup
first = iter(loader).next()

# %% left alone in setup
first = next(iter(loader))
