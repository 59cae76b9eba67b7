"""What runs inside a measured program's process.  Loaded under a private name, so that the program's own modules keep theirs."""
