"""MG7xx, metrics: what is evaluated and reported."""
