# %% changed in setup
torch.save(model.state_dict(), "first.pt")
state = torch.load("first.pt", map_location="cpu")

# %% left alone in setup
state = torch.load("given.pt", map_location="cpu")
