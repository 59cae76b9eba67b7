class Options:
    """Nested sections of a file as attributes."""

    def __init__(self, section):
        for key, value in section.items():
            setattr(self, key, Options(value) if isinstance(value, dict) else value)
