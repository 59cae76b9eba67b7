"""MG4xx, optimisation: batch, precision, loss and step."""
