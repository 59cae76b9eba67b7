"""What the form with one Accelerator needs to know beside the rest."""
