"""Where processes meet, part, wait for each other, or exist already."""
