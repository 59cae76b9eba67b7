"""One process of a measured run: hooks, then the program as `__main__`.

    python run.py SETTINGS.json

In: the settings file of the launcher.  Out: `rank.R.json` in its folder.  Nothing of this tool stays importable by its public
name: the program may own a folder called `benchmarks` (or a module called `run` or `measure`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import sys
import traceback
from types import ModuleType
from typing import Any


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0] or ".") == here:
        del sys.path[0]
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    meter: Any = None
    code = 1
    try:
        meter = _private("measure", here).install(settings)
        verify = os.path.join(os.path.dirname(os.path.dirname(here)), "migrator", "verify")
        if settings["pretend_cuda"]:
            _private("pretend", here).install(_private("simcuda", verify))
        if settings["variant"] == "single":
            _on_one_device()
        if settings["fake_data"]:
            _private("fakedata", verify).install(settings["fake_data"])
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


def _private(name: str, folder: str) -> ModuleType:
    """A module of this folder under a name that no program has."""
    spec = importlib.util.spec_from_file_location(f"_mgmigrate.{name}", os.path.join(folder, f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _report(meter: Any, settings: dict[str, Any], error: BaseException, message: str) -> None:
    """Where the program failed: its last own line."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == settings["entry"]]
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    rank = os.environ.get("RANK", "0")
    with open(os.path.join(settings["folder"], f"error.{rank}.json"), "w", encoding="utf-8") as file:
        json.dump({"kind": type(error).__name__, "message": message + place, "steps": getattr(meter, "count", 0)}, file)


if __name__ == "__main__":
    main()
