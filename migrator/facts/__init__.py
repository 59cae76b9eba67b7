"""What the tool knows of a program: modules, who is who, and the places that a conversion is about."""
