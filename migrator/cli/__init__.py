"""The command line: one module for each command, and what several of them share.

Heavy parts (libcst, the rules, torch) are imported inside the commands, so that `--help` answers at once.
"""
