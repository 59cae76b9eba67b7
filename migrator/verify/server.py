"""Start of the fork server: `python server.py PRELOAD..`, commands on standard input, answers on standard output.

In: names of modules to import before forking.  Out: see `forks.serve`.  The package is loaded under a private name and its
folder stays off the path: a program under check may have modules called `migrator`, `compare` or `record` of its own.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

PRIVATE_NAME = "_mgmigrate_verify"


def main() -> None:
    here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if p and Path(p).resolve() != here]
    commands, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)  # what imported modules print must not mix with the answers
    spec = importlib.util.spec_from_file_location(
        PRIVATE_NAME, here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PRIVATE_NAME] = package
    spec.loader.exec_module(package)
    try:
        forks = importlib.import_module(PRIVATE_NAME + ".forks")
        for name in sys.argv[1:]:
            try:
                importlib.import_module(name)
            except ImportError:
                continue  # the program's own import tells it, if it needs the module
    except Exception as error:  # reported to the parent, which ends the check with this reason
        os.write(
            answers, (json.dumps({"event": "failed", "error": f"{type(error).__name__}: {error}"}) + "\n").encode()
        )
        return
    forks.serve(commands, answers)


if __name__ == "__main__":
    main()
