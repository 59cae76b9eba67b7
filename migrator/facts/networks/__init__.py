"""What the networks of a program compute: forward passes, layers, parameters, statistics."""
