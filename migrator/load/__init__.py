"""Read programs from the disk: source files without losing a byte, and the modules that an entry reaches."""
