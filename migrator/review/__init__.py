"""The review page: what a conversion does, fix by fix, for a person to read, accept or refuse.

In: converted programs.  Out: one HTML file.  Nothing here is imported unless a page is asked for; jinja2 and Pygments come with
the extra `report`.
"""
