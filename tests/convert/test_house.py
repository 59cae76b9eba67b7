"""Where a module lives says what it may import: cli, then the pipeline, then the rules, then the facts."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("migrator", "codemods", "benchmarks")
FILES = [path.relative_to(ROOT) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
FILES = [path for path in FILES if "examples" not in path.parts or path.name == "__init__.py"]
# Whose files may import nothing of whose names.
ABOVE = {
    "migrator/facts": (
        "codemods",
        "migrator.cli",
        "migrator.convert",
        "migrator.rewrite",
        "migrator.formats",
        "benchmarks",
    ),
    "migrator/load": ("codemods", "migrator.cli", "migrator.convert", "migrator.formats", "benchmarks"),
    "migrator/rewrite": ("codemods", "migrator.cli", "migrator.convert", "migrator.formats", "benchmarks"),
    "migrator/edits.py": ("codemods", "migrator.cli", "migrator.convert", "migrator.rewrite", "migrator.formats"),
    "codemods": ("migrator.cli", "migrator.convert", "migrator.rewrite", "migrator.formats", "libcst", "benchmarks"),
    "migrator/convert": ("migrator.cli", "migrator.trees", "migrator.formats", "migrator.write", "benchmarks"),
    "migrator/notebooks": ("migrator.cli", "migrator.trees", "migrator.formats", "migrator.write", "benchmarks"),
    "migrator/launch": ("migrator.cli", "migrator.convert", "migrator.formats", "benchmarks"),
    "migrator/write": ("migrator.cli", "migrator.formats", "migrator.trees", "benchmarks"),
    "migrator/trees": ("migrator.cli", "migrator.formats", "benchmarks"),
    "migrator/formats": ("migrator.cli", "migrator.trees", "benchmarks"),
    "migrator/verify": ("codemods", "migrator.cli", "migrator.convert", "migrator.formats", "libcst", "benchmarks"),
}
# What speaks another tool's language has to import that tool.
ALLOWED = {("codemods/runner.py", "libcst"), ("codemods/runner.py", "migrator.convert")}


def imported(path: Path) -> set[str]:
    """The modules that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("folder", ABOVE)
def test_nothing_imports_what_is_built_on_it(folder):
    own = [path for path in FILES if path.as_posix() == folder or path.as_posix().startswith(f"{folder}/")]
    assert own, f"there is no {folder} any more: say where its imports may go now"
    wrong = [
        f"{path.as_posix()} imports {name}"
        for path in own
        for name in sorted(imported(path))
        for above in ABOVE[folder]
        if (name == above or name.startswith(f"{above}.")) and (path.as_posix(), above) not in ALLOWED
    ]
    assert wrong == []


def test_only_the_command_line_prints_or_ends_the_process():
    """Everything else gives text back, or raises."""
    wrong = []
    for path in FILES:
        if path.parts[0] == "benchmarks" or path.parts[:2] in (
            ("migrator", "cli"),
            ("migrator", "verify"),
            ("codemods", "templates"),
        ):
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "input"):
                wrong.append(f"{path.as_posix()}:{node.lineno}")
    assert wrong == []


def test_a_rule_stands_in_the_folder_of_its_family():
    from codemods.registry import RULE_FILES, load_rules

    digits = dict(zip(RULE_FILES, "012345679", strict=True))
    names = [(family, name) for family, names in RULE_FILES.items() for name in names]
    wrong = [
        (rule.id, family) for (family, _), rule in zip(names, load_rules(), strict=True) if rule.id[2] != digits[family]
    ]
    assert wrong == []
    assert [rule.id for rule in load_rules()] == sorted(rule.id for rule in load_rules())
