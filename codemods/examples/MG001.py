# %% changed
inputs = inputs.cuda(async=True)

# %% left alone
inputs = inputs.cuda(non_blocking=True)
