"""What programs need that wrapped only a part of their model."""


def bare_keys(state_dict, part):
    """The keys of the model itself: those of a model that is wrapped, as a whole or only in `part`, have "module." in them."""
    bare = {}
    for name, value in state_dict.items():
        name = name.removeprefix("module.")
        if name.startswith(f"{part}.module."):
            name = name.replace(".module.", ".", 1)
        bare[name] = value
    return bare
