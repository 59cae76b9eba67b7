"""MG0xx, source: what today's Python and torch refuse, or spell in another way."""
