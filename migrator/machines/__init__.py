"""What fits which machines: is one fit for one process per GPU, and which form fits a program."""
