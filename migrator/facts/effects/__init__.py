"""What a program does to the world outside, and what it reads of it."""
