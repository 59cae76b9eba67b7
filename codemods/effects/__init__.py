"""MG5xx, side effects: files, folders, logs and downloads happen once."""
