# %% changed: --to accelerate
print(model.module.weight.norm())

# %% left alone: --to accelerate
print(loss)
