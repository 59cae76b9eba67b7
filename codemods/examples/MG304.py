# %% changed
if isinstance(model, nn.DataParallel):
    print(model.module)

# %% left alone
if isinstance(model, nn.Module):
    print(model)
