"""`python -m migrator` and the `mgmigrate` script."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; whatever goes wrong inside is one line on stderr and exit code 4, never a traceback."""
    gc.set_threshold(200_000)  # syntax trees are many objects, all of which live until the end
    sys.setrecursionlimit(4000)  # a sum of some hundred terms nests as deeply
    from migrator.cli import app

    try:
        app(prog_name="mgmigrate")
    except Exception as error:
        if os.environ.get("MGMIGRATE_DEBUG"):
            raise
        from migrator.console import internal_error

        sys.stderr.write(f"mgmigrate: {internal_error(error)}\n")
        sys.exit(4)


if __name__ == "__main__":
    main()
