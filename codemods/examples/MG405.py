# %% changed in setup
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))

# %% left alone
pass
