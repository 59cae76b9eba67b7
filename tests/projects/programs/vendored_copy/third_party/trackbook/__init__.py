"""trackbook 0.3: experiment records as lines of JSON."""

from .track import Track

__version__ = "0.3.1"
