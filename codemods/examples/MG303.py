# %% changed in setup
loader = DataLoader(data, batch_size=4 * torch.cuda.device_count(), shuffle=True)

# %% left alone in setup
print(torch.cuda.is_available())
