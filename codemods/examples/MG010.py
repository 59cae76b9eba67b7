# %% changed
with torch.cuda.amp.autocast():
    print(model(inputs).mean())

# %% left alone
with torch.amp.autocast("cuda"):
    print(model(inputs).mean())
