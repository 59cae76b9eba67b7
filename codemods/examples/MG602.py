# %% changed in setup
model.load_state_dict(torch.load("model.pt"))

# %% left alone in setup
model.load_state_dict(torch.load("model.pt", map_location="cpu"))
