# %% told in step
print(loss.item())

# %% left alone
print(epoch)
