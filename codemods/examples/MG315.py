# %% told
with torch.autocast("cuda", dtype=torch.bfloat16):
    print(model(inputs).mean())

# %% left alone
with torch.autocast("cuda"):
    print(model(inputs).mean())
