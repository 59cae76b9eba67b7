# %% changed: --to accelerate
print("epoch", epoch)

# %% left alone
print("epoch", epoch)
