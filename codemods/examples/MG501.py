# %% changed
torch.save(model.state_dict(), "model.pt")

# %% left alone
print("saved")
