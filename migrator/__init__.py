"""The tool: a command line over a pipeline (load, facts, convert, rewrite, write), and what checks and shows its results."""
