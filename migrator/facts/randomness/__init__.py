"""What differs between processes unless they agree: random numbers, orders of sets, the clock."""
