"""GPUs, placing and precision."""
