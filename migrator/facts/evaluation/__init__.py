"""Loops that evaluate, and figures that are shown."""
