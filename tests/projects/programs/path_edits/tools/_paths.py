import os
import sys


def add_path(path):
    if path not in sys.path:
        sys.path.insert(0, path)


here = os.path.dirname(os.path.abspath(__file__))
add_path(os.path.join(here, "..", "lib"))
