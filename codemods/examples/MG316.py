# %% told in setup
seen = []
model.module.register_forward_hook(lambda module, given, made: seen.append(made))

# %% left alone in setup
print(model.module)
