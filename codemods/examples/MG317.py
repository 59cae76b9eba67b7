# %% told in file
torch.set_default_tensor_type("torch.cuda.FloatTensor")

# %% left alone in file
torch.set_default_dtype(torch.float32)
