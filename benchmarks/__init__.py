"""The before/after benchmark of a training program, and benchmarks of the tool itself.

Importing this imports nothing; `results`, `figures`, `honesty`, `compare` and `show` never import torch.
"""
