# %% changed in setup: --unsafe
model.load_state_dict(torch.load("model.pt"))

# %% told in setup
model.load_state_dict(torch.load("model.pt"))

# %% left alone in setup: --unsafe
model.load_state_dict(torch.load("model.pt", weights_only=True))
