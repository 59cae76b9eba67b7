# %% changed in setup
number = len(os.listdir("runs"))
folder = os.path.join("runs", str(number))
os.makedirs(folder)

# %% left alone in setup
print(len(os.listdir("runs")))
