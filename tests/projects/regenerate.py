"""Write the stored diffs anew: `python -m tests.projects.regenerate`, in the folder of the project."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.projects.cases import PROJECTS
from tests.projects.tools import GOLDEN, convert_here, copy_of, stored


def main() -> None:
    for project in PROJECTS:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(copy_of(project.name, Path(folder)))
            text = stored(convert_here(project.entry))
            os.chdir(GOLDEN)  # the temporary folder goes
        path = GOLDEN / f"{project.name}.diff"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path)


if __name__ == "__main__":
    main()
