# %% changed
nn.utils.clip_grad_norm(model.parameters(), 1.0)

# %% left alone
nn.utils.clip_grad_norm_(model.parameters(), 1.0)
