"""Which forms of a program are measured, and how each is started.

In: a `Request`.  Out: a `Plan` for each form that can run, and a `Variant` with the reason for each that cannot.  The converter
runs here and executes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from benchmarks.launch import Measuring, Plan
from benchmarks.results import Variant
from codemods.options import Options
from migrator.convert.modernise import modernise, refused_today
from migrator.convert.pipeline import convert_program
from migrator.errors import internal_error
from migrator.load.source import SourceError
from migrator.machines.machine import Gpu
from migrator.verify.workspace import files_of
from migrator.write.files import WriteError, encoded

Target = Literal["ddp", "accelerate"]
TITLES = {
    "single": "one device",
    "dp": "DataParallel",
    "ddp": "DistributedDataParallel",
    "accelerate": "accelerate",
}
CPU_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class Form:
    """A converted form; `label` tells it from another one of the same target, `policies` are the flags that make it."""

    target: Target = "ddp"
    label: str = ""
    policies: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)

    @property
    def name(self) -> str:
        return f"{self.target}:{self.label}" if self.label else self.target

    @property
    def title(self) -> str:
        return " ".join([TITLES[self.target], *self.policies])


@dataclass(frozen=True, slots=True)
class Request:
    """One benchmark; `gpus` empty: the CPU."""

    program: Path
    command: str
    arguments: tuple[str, ...] = ()
    forms: tuple[Form, ...] = (Form(),)
    after: Path | None = None  # a converted program, or a folder of changed files, to take instead of converting now
    module: str | None = None  # run as `python -m`, from `folder`
    folder: Path | None = None
    gpus: tuple[Gpu, ...] = ()
    processes: int = CPU_PROCESSES  # on the CPU
    rounds: int = 3
    measuring: Measuring = field(default_factory=lambda: Measuring(10, 30, 3))
    profile_steps: int = 3  # of one run per form, after its timed windows
    max_batch: bool = False
    model: str | None = None
    keep: Path | None = None  # logs and traces
    root: Path | None = (
        None  # folder to copy; default: the current one where the program lies in it, else the program's
    )


def root_of(request: Request) -> Path:
    """The folder that each run gets a copy of."""
    if request.root is not None:
        return request.root.resolve()
    own, here = (request.folder or request.program.parent).resolve(), Path.cwd().resolve()
    return here if own.is_relative_to(here) else own


def make_plans(request: Request) -> tuple[list[Plan], list[Variant]]:
    """What can be run, and the forms that cannot.  Raises `SourceError` where the program itself cannot be read."""
    root = root_of(request)
    entry = str(request.program.resolve().relative_to(root))
    cuda = bool(request.gpus)
    count = len(request.gpus) if cuda else request.processes
    every = ",".join(gpu.uuid for gpu in request.gpus)
    first = request.gpus[0].uuid if cuda else ""
    today, told = _of_today(request, root)
    base = Plan(
        "single",
        TITLES["single"],
        1,
        1,
        "cuda" if cuda else "cpu",
        entry,
        today,
        visible=first,
        module=request.module,
        path=None if request.folder is None else str(request.folder.resolve().relative_to(root)),
        note=told,
    )
    plans, missing = [base], []
    if count > 1 and cuda:
        plans.append(replace(base, name="dp", title=TITLES["dp"], devices=count, visible=every))
    else:
        title = "one GPU" if cuda else "no GPU"
        error = f"with {title} DataParallel calls the module itself, as one device does"
        missing.append(Variant("dp", TITLES["dp"], "passes-through", 1, 1, error=error))
    for form in request.forms:
        made = replace(base, name=form.name, title=form.title, devices=count, processes=count, visible=every, note="")
        try:
            plans.append(_converted(request, form, root, made))
        except (SourceError, WriteError, ValueError) as error:
            missing.append(_not_available(form, count, str(error)))
        except Exception as error:  # a fault of the converter's keeps the other forms from nothing
            missing.append(_not_available(form, count, internal_error(error)))
    return plans, missing


def _not_available(form: Form, count: int, error: str) -> Variant:
    return Variant(form.name, form.title, "not-available", count, count, error=error, policies=form.policies)


def _of_today(request: Request, root: Path) -> tuple[Mapping[str, bytes], str]:
    """What has to be respelled in an original that today's torch refuses; empty for a program of today."""
    try:
        modern = modernise(request.program)
    except SourceError:
        raise
    except Exception as error:  # the program itself may run all the same
        return {}, f"was run as it is: {internal_error(error)}"
    if not refused_today(modern):
        return {}, ""
    files = {str(Path(change.path).resolve().relative_to(root)): encoded(change) for change in modern.changes}
    places = dict.fromkeys(f"{d.rule} {d.at.path}:{d.at.line}" for d in modern.diagnostics)
    told = f"today's torch refuses the original; it was run with only this respelled: {', '.join(places)}"
    return files, told


def _converted(request: Request, form: Form, root: Path, plan: Plan) -> Plan:
    """The plan of a converted form.  Raises `ValueError` where there is none."""
    cuda = bool(request.gpus)
    launcher = "accelerate" if form.target == "accelerate" and cuda else "torchrun"
    # On a CPU `accelerate launch` wants MPI for several processes; torchrun starts the same program.
    environment = {"ACCELERATE_USE_CPU": "true"} if form.target == "accelerate" and not cuda else {}
    precision = form.options.amp if form.options.amp in ("bf16", "fp16") else "no"
    plan = replace(plan, launcher=launcher, environment=environment, precision=precision, policies=form.policies)
    if request.after is not None:
        return _given(request.after.resolve(), root, plan)
    conversion = convert_program(request.program, replace(form.options, target=form.target))
    if not conversion.changes:
        told = "; ".join(d.message for d in conversion.diagnostics)
        raise ValueError(f"cannot be converted: {told or 'nothing to convert'}")
    files = {str(Path(change.path).resolve().relative_to(root)): encoded(change) for change in conversion.changes}
    asked = "; ".join(f"{q.at.path}:{q.at.line}: {q.message}" for q in conversion.questions)
    note = f"the conversion leaves questions for a person, and was run as it is: {asked}" if asked else ""
    return replace(plan, files=files, whole_batches=conversion.way == "call", note=note)


def _given(after: Path, root: Path, plan: Plan) -> Plan:
    """A converted program beside the original, or a folder of changed files that take their places."""
    if after.is_file():
        if not after.is_relative_to(root):
            raise ValueError(f"{after}: does not lie beside the original ({root})")
        return replace(plan, entry=str(after.relative_to(root)), module=None, path=None)
    names = files_of(after)
    bases = [Path("."), Path(plan.entry).parent]
    best = max(bases, key=lambda base: sum((root / base / name).exists() for name in names))
    if not any((root / best / name).exists() for name in names):
        raise ValueError(f"{after}: holds none of the program's files")
    return replace(plan, files={str(best / name): (after / name).read_bytes() for name in names})
