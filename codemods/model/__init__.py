"""MG3xx, model and devices: what is wrapped, and where it lives."""
