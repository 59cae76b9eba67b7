"""What programs need that wrapped only a part of their model."""


def bare_keys(state_dict, part):
    """The weights by the names of the model itself: a wrapper around it, or around its `part`, puts "module." into them."""
    bare = {}
    for name, value in state_dict.items():
        name = name.removeprefix("module.")
        if name.startswith(f"{part}.module."):
            name = name.replace(".module.", ".", 1)
        bare[name] = value
    return bare
