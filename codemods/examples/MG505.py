# %% changed in setup
name = input("Name of this run? ")

# %% left alone in setup
print(input)
