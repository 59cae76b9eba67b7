# %% changed
inputs = inputs.to("cuda:0")

# %% left alone
inputs = inputs.to("cuda")
