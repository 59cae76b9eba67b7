"""The conversion as a libcst codemod, for people who have a codemod runner.

`python -m libcst.tool codemod -x codemods.ConvertToDDP --no-format train.py` converts one module, with every helper inside it;
what a person must decide comes out as the runner's warnings.  (Without `--no-format` the runner wants black.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import libcst as cst
from libcst.codemod import CodemodCommand, SkipFile

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source, SourceError


class ConvertToDDP(CodemodCommand):
    """Convert an nn.DataParallel program to DistributedDataParallel."""

    DESCRIPTION = "Convert an nn.DataParallel program to DistributedDataParallel."
    TARGET: Literal["ddp", "accelerate"] = "ddp"

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        path = Path(self.context.filename or "module.py")
        try:
            conversion = convert_program(
                path, Options(target=self.TARGET, inline_helpers=True), Source(str(path), tree.code)
            )
        except SourceError as error:
            raise SkipFile(str(error)) from error
        for diagnostic in conversion.diagnostics:
            if diagnostic.level == "question":
                at = diagnostic.at
                self.warn(f"{at.path}:{at.line}: {diagnostic.rule}: {diagnostic.message}")
        changes = {Path(change.path).resolve(): change for change in conversion.changes}
        own = changes.pop(path.resolve(), None)
        if changes:
            names = ", ".join(str(p.name) for p in changes)
            raise SkipFile(f"{path}: needs changes in {names} too; use `mgmigrate convert {path}`")
        return cst.parse_module(own.after, config=tree.config_for_parsing) if own is not None else tree


class ConvertToAccelerate(ConvertToDDP):
    """Convert an nn.DataParallel program to Hugging Face accelerate."""

    DESCRIPTION = "Convert an nn.DataParallel program to Hugging Face accelerate."
    TARGET = "accelerate"
