"""Whole trees: the DataParallel programs in them, converted one after the other or together."""
