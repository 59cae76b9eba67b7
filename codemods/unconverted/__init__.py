"""MG9xx, not converted: what only a person can decide."""
