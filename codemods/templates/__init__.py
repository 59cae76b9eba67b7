"""Source text that converted programs are given: helpers in plain torch, each emitted only where it is used."""
