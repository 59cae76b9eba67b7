"""The whole projects of this folder: how each is started, what is to become of it, and what it is there for.

Lines at which something must be reported are marked in the programs: `# reported: MG905`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Project:
    """`{gpus}` in the arguments stands for the indices of all devices; `verdict` is what verify must say; `unverified` is the reason where nothing can be run."""

    name: str
    trap: str  # what is hard about it
    way: str
    entry: str = "train.py"
    arguments: tuple[str, ...] = ()
    module: str | None = None  # run by `python -m`
    verdict: str = "EQUAL"
    unverified: str = ""
    always: bool = False  # verified in every test run; the others with `make verify-all`
    untouched: tuple[str, ...] = ()  # files of the program that no conversion may change
    options: dict[str, object] = field(default_factory=dict)


PROJECTS = (
    Project(
        "inherited_trainer",
        "the wrap, the epochs and early stopping are in a base class, the step in a subclass, and a subclass of DataLoader"
        " makes its own samplers",
        "call",
        always=True,
    ),
    Project(
        "networks_in_a_container",
        "several networks and optimizers in dictionaries whose entries are attributes, wrapped in a loop by a factory",
        "call",
    ),
    Project(
        "loaders_from_helpers",
        "one helper makes both loaders, a second one returns them in a tuple, and a package passes it on",
        "call",
        entry="main.py",
    ),
    Project(
        "whole_batches",
        "the data set yields whole batches, the loader's batch size is 1, and one method trains and checks",
        "call",
        entry="src/train.py",
        always=True,
    ),
    Project(
        "registry_with_config",
        "data set, model and optimizer come from registries, and the batch is one for each GPU times their number",
        "distributed",
        entry="tools/train.py",
        arguments=("--gpus", "{gpus}"),
    ),
    Project(
        "names_in_yaml",
        "eval and getattr choose model, loss and optimizer by names from a file",
        "batch",
        arguments=("--gpus", "{gpus}"),
    ),
    Project(
        "own_engine",
        "the loop is in an engine of the project, which calls the step and the callbacks",
        "batch",
    ),
    Project(
        "closures_and_hooks",
        "the step is a partial of a function, given batch by batch to a lambda; the wrap is in a closure",
        "call",
        entry="run.py",
    ),
    Project(
        "shared_entries",
        "three programs share data, loop and model: one trains, one trains a part, one only tests",
        "call",
    ),
    Project(
        "path_edits",
        "a module beside the program puts another folder on the path",
        "distributed",
        entry="tools/train.py",
        arguments=("--gpus", "{gpus}"),
    ),
    Project(
        "star_imports",
        "torch itself arrives by star imports over three modules",
        "call",
    ),
    Project(
        "late_imports",
        "every import is inside a function, and click starts the program",
        "call",
        entry="cli.py",
        arguments=("train", "--epochs", "2"),
    ),
    Project(
        "vendored_copy",
        "a copy of a library lies in the project; what it writes is reported, and the copy stays as it is",
        "distributed",
        untouched=("third_party/trackbook/track.py", "third_party/normed.py"),
        verdict="",
        unverified="both processes write the copy's file until a person decides about it",
    ),
    Project(
        "own_folder_names",
        "the project has folders that are called as this tool's own",
        "call",
        always=True,
    ),
    Project(
        "run_as_module",
        "the program is started by `python -m` and imports from beside itself",
        "batch",
        entry="speech/train.py",
        module="speech.train",
    ),
    Project(
        "absl_program",
        "absl starts the program, the step is a closure over a state, and a dictionary knows the models",
        "call",
        entry="main.py",
    ),
    Project(
        "loader_from_a_plugin",
        "the loader comes from a plug-in that nobody can see",
        "call",
    ),
    Project(
        "fire_program",
        "fire starts a function of another module, and only a part of the model is wrapped",
        "call",
        entry="run.py",
        verdict="",
        unverified="fire is not among the packages of this project",
    ),
)
