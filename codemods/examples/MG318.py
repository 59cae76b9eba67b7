# %% changed in setup: --to accelerate
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
weights = torch.ones(2).to(device)

# %% left alone in setup: --to accelerate
device = torch.device("cpu")
