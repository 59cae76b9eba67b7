"""How converted programs are started."""
