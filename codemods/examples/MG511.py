# %% changed in setup
if os.path.exists("out"):
    raise SystemExit("there are results already")
os.makedirs("out")

# %% left alone in setup
if os.path.exists("data"):
    print("the data is there")
