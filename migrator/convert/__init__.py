"""Convert one program: from its facts and the rules to changed files, in memory.

`pipeline.convert_program` is the way in.  Nothing is written, printed or executed here.
"""
