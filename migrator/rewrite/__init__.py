"""Apply planned edits to the text of a module, with libcst; `apply.apply_edits` is the way in.

Nothing here is imported before there is something to rewrite.
"""
