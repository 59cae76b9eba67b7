"""`python -m migrator` and the `mgmigrate` script."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; whatever goes wrong inside is one line on stderr and exit code 4, never a traceback."""
    _pass_over_the_folder()
    gc.set_threshold(200_000)  # syntax trees are many objects, all of which live until the end
    sys.setrecursionlimit(4000)  # a sum of some hundred terms nests as deeply
    from typer import Exit

    from migrator.cli.app import app
    from migrator.cli.convert import convert
    from migrator.cli.quick import parse_plainly
    from migrator.cli.review import review
    from migrator.cli.scan import scan

    words = sys.argv[1:]
    plain = {"convert": convert, "review": review, "scan": scan}.get(words[0] if words else "")
    try:
        values = parse_plainly(plain, words[1:]) if plain is not None and not _completes() else None
        if plain is None or values is None:
            app(prog_name="mgmigrate")
        else:
            plain(**values)
    except Exit as done:
        sys.exit(done.exit_code)
    except Exception as error:
        if os.environ.get("MGMIGRATE_DEBUG"):
            raise
        from migrator.errors import internal_error

        sys.stderr.write(f"mgmigrate: {internal_error(error)}\n")
        sys.exit(4)


def _pass_over_the_folder() -> None:
    """Under `-m`, Python looks for modules in the current folder first: a project may have packages called as the tool's own."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it is gone, and holds nothing
        return
    if sys.path[0] in ("", here) and not __file__.startswith(os.path.join(here, "")):
        del sys.path[0]


def _completes() -> bool:
    """True when a shell asks for completions."""
    return any(name.endswith("_COMPLETE") for name in os.environ)


if __name__ == "__main__":
    main()
