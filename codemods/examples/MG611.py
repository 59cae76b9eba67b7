# %% changed: --to accelerate
torch.save(model.state_dict(), "model.pt")

# %% left alone
torch.save(model.state_dict(), "model.pt")
