# %% changed in setup
names = {"cat", "dog"}
labels = {name: number for number, name in enumerate(list(names))}

# %% left alone in setup
names = {"cat", "dog"}
labels = {name: number for number, name in enumerate(sorted(names))}
