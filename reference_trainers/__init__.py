"""DataParallel programs that the tool converts and measures, and the demo that does it."""
