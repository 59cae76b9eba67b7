"""Data sets and loaders: what they give, in which order, and who draws from them."""
