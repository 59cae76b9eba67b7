# %% changed in setup
os.environ["MASTER_PORT"] = "29500"

# %% left alone in setup
os.environ["TMPDIR"] = "/scratch"
