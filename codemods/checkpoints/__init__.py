"""MG6xx, checkpoints: old ones load, new ones have the old keys."""
