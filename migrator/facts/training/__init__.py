"""The training as a whole: its loops, what it trains, and in which way its batches can be shared."""
