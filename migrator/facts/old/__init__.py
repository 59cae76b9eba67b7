"""What programs of torch's early years spell otherwise."""
