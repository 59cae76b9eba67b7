"""What the code itself says: nodes, scopes, names, what calls run and what values may be."""
