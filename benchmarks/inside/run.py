"""One process of a measured run: hooks, then the program as `__main__`.

    python run.py SETTINGS.json

In: the settings file of the launcher.  Out: `rank.R.json` in its folder.  Nothing of this tool stays importable by its public
name: the program may own a folder called `benchmarks` (or a module called `run` or `measure`).
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback
from types import ModuleType
from typing import Any

NAME = "_mgmigrate_bench"


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0] or ".") == here:
        del sys.path[0]
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    meter: Any = None
    code = 1
    try:
        verify = os.path.join(os.path.dirname(os.path.dirname(here)), "migrator", "verify")
        _package(here, verify)
        meter = importlib.import_module(f"{NAME}.measure").install(settings)
        if settings["pretend_cuda"]:
            importlib.import_module(f"{NAME}.pretend").install(importlib.import_module(f"{NAME}.simcuda"))
        if settings["variant"] == "single":
            _on_one_device()
        if settings["fake_data"]:
            importlib.import_module(f"{NAME}.fakedata").install(settings["fake_data"])
        if settings["prelude"]:
            exec(compile(settings["prelude"], "<prelude>", "exec"), {"__name__": "__prelude__"})
        _execute(settings)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code:
            _report(meter, settings, error, f"the program left with exit status {error.code!r}"[:400])
    except BaseException as error:
        traceback.print_exc()
        _report(meter, settings, error, f"{type(error).__name__}: {error}"[:2000])
    if meter is not None:
        meter.end(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _execute(settings: dict[str, Any]) -> None:
    """The program as `__main__`: a file, or a module as `python -m` runs it."""
    entry, module = settings["entry"], settings["module"]
    sys.argv = [entry, *settings["arguments"]]
    if module is None:
        sys.path.insert(0, os.path.dirname(entry))
        runpy.run_path(entry, run_name="__main__")
    else:
        sys.path.insert(0, settings["path"])
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def _on_one_device() -> None:
    """DataParallel takes the one visible device, also where the program numbers more."""
    from torch.nn import DataParallel

    wrap = DataParallel.__init__

    def on_one(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        wrap(self, module, dim=dim)

    DataParallel.__init__ = on_one


def _package(*folders: str) -> None:
    """Our modules in a package whose name no program has; only those that are asked for are imported."""
    package = ModuleType(NAME)
    package.__path__ = list(folders)
    sys.modules[NAME] = package


def _report(meter: Any, settings: dict[str, Any], error: BaseException, message: str) -> None:
    """Where the program failed: its last own line."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == settings["entry"]]
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    rank = os.environ.get("RANK", "0")
    with open(os.path.join(settings["folder"], f"error.{rank}.json"), "w", encoding="utf-8") as file:
        json.dump({"kind": type(error).__name__, "message": message + place, "steps": getattr(meter, "count", 0)}, file)


if __name__ == "__main__":
    main()
