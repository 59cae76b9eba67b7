# %% changed in setup
os.makedirs("out")

# %% left alone in setup
os.makedirs("out", exist_ok=True)
