# %% changed
print(loss.data[0])

# %% left alone
print(inputs[0])
