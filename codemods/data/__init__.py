"""MG2xx, data: each process reads its own share, in the right order."""
