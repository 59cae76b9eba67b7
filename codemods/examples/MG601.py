# %% changed
torch.save(model, "model.pt")

# %% left alone
torch.save(model.state_dict(), "model.pt")
