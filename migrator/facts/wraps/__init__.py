"""Wraps in DataParallel: where they are, under which conditions, of what, and what else is named like them."""
