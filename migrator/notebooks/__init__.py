"""Notebooks: their cells as one program, converted, and shown cell by cell."""
