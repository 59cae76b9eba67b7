"""Side effects that must happen once: what a call writes, makes, removes, asks or downloads.

The tables are data: library name → what it does and which argument is the path.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.model import Clock, Effect
from migrator.facts.syntax import Module, argument, dotted

# name → (kind, position of the path, keyword of the path)
_CALLS: dict[str, tuple[str, int, str]] = {
    "torch.save": ("write", 1, "f"),
    "torch.jit.save": ("write", 1, "f"),
    "numpy.save": ("write", 0, "file"),
    "numpy.savez": ("write", 0, "file"),
    "numpy.savez_compressed": ("write", 0, "file"),
    "numpy.savetxt": ("write", 0, "fname"),
    "scipy.io.savemat": ("write", 0, "file_name"),
    "scipy.misc.imsave": ("write", 0, "name"),
    "scipy.io.wavfile.write": ("write", 0, "filename"),
    "soundfile.write": ("write", 0, "file"),
    "librosa.output.write_wav": ("write", 0, "path"),
    "torchvision.utils.save_image": ("write", 1, "fp"),
    "cv2.imwrite": ("write", 0, "filename"),
    "imageio.imwrite": ("write", 0, "uri"),
    "imageio.imsave": ("write", 0, "uri"),
    "skimage.io.imsave": ("write", 0, "fname"),
    "matplotlib.pyplot.savefig": ("write", 0, "fname"),
    "joblib.dump": ("write", 1, "filename"),
    "shutil.copy": ("write", 1, "dst"),
    "shutil.copy2": ("write", 1, "dst"),
    "shutil.copyfile": ("write", 1, "dst"),
    "shutil.copytree": ("write", 1, "dst"),
    "shutil.move": ("write", 1, "dst"),
    "os.rename": ("write", 1, "dst"),
    "os.replace": ("write", 1, "dst"),
    "os.symlink": ("write", 1, "dst"),
    "os.remove": ("remove", 0, "path"),
    "os.unlink": ("remove", 0, "path"),
    "os.rmdir": ("remove", 0, "path"),
    "shutil.rmtree": ("remove", 0, "path"),
    "os.system": ("shell", 0, "command"),
    "os.popen": ("shell", 0, "cmd"),
    "subprocess.call": ("shell", 0, "args"),
    "subprocess.run": ("shell", 0, "args"),
    "subprocess.Popen": ("shell", 0, "args"),
    "subprocess.check_call": ("shell", 0, "args"),
    "subprocess.check_output": ("shell", 0, "args"),
    "os.makedirs": ("folder", 0, "name"),
    "os.mkdir": ("folder", 0, "path"),
    "urllib.request.urlretrieve": ("download", 1, "filename"),
    "logging.FileHandler": ("sink", 0, "filename"),
    "logging.basicConfig": ("sink", -1, "filename"),
    "torch.utils.tensorboard.SummaryWriter": ("sink", 0, "log_dir"),
    "torch.utils.tensorboard.writer.SummaryWriter": ("sink", 0, "log_dir"),
    "tensorboardX.SummaryWriter": ("sink", 0, "logdir"),
    "tensorboard_logger.configure": ("sink", 0, "logdir"),
    "tensorboard_logger.Logger": ("sink", 0, "logdir"),
    "visdom.Visdom": ("sink", -1, "env"),
    "wandb.init": ("sink", -1, "dir"),
    "input": ("prompt", 0, "prompt"),
    "raw_input": ("prompt", 0, "prompt"),
    "pdb.set_trace": ("prompt", -1, ""),
    "ipdb.set_trace": ("prompt", -1, ""),
}
_METHODS: dict[str, str] = {"savefig": "write", "to_csv": "write", "save_pretrained": "write", "to_pickle": "write"}
_CLOCK = re.compile(
    r"^(time\.(time|strftime|asctime|ctime|localtime|time_ns)|datetime\.(datetime\.)?(now|today|utcnow)|datetime\.date\.today"
    r"|os\.getpid|uuid\.uuid[14]|os\.urandom|secrets\.\w+|tempfile\.\w+|socket\.gethostname)$"
)
_SEED = re.compile(r"(^|\.)(manual_seed(_all)?|seed|set_seed|fix_seed|RandomState|default_rng|seed_everything)$")


def classify(module: Module, call: ast.Call, name: str) -> Effect | None:
    """The effect of a call, or None."""
    kind, position, keyword = "", -1, ""
    if name in _CALLS:
        kind, position, keyword = _CALLS[name]
    elif name in ("open", "io.open", "codecs.open"):
        mode = argument(call, "mode", 1)
        text = (
            mode.value
            if isinstance(mode, ast.Constant) and isinstance(mode.value, str)
            else "r"
            if mode is None
            else "?"
        )
        if re.search(r"[wax+]", text):
            kind, position, keyword = "open", 0, "file"
    elif isinstance(call.func, ast.Attribute):
        method = call.func.attr
        if method in _METHODS:
            kind, position, keyword = _METHODS[method], 0, ""
        elif method == "mkdir" and name != "os.mkdir":
            kind = "path_mkdir"
    if not kind:
        return None
    path = argument(call, keyword, position if position >= 0 else None)
    if kind == "sink" and name == "logging.basicConfig" and path is None:
        return None
    statement = module.statement(call)
    return Effect(
        kind=kind,
        name=name or dotted(call.func) or "",
        at=module.span(call),
        statement=module.span(statement),
        path=module.span(path) if path is not None else None,
        path_text=module.segment(path) if path is not None else "",
        scope=module.scope_of.get(call, module.scope).name,
    )


def clock(module: Module, call: ast.Call, name: str) -> Clock | None:
    """A call whose value differs between processes, with what the value flows into."""
    if not _CLOCK.match(name):
        return None
    top: ast.AST = call
    into = ""
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.stmt):
            if isinstance(ancestor, ast.If | ast.While):
                into = into or "condition"
            break
        if isinstance(ancestor, ast.Call) and ancestor is not call:
            called = module.qualified(ancestor.func) or (
                ancestor.func.attr if isinstance(ancestor.func, ast.Attribute) else ""
            )
            if _SEED.search(called):
                into = "seed"
        top = ancestor
    statement = module.statement(call)
    if not into:
        text = module.segment(statement)
        if name in ("time.time", "time.time_ns"):
            # Stop watches are by far the commonest use; they only reach the log.
            into = (
                "name"
                if re.search(r"(dir|path|name|file|folder|log_?id|run_?id|exp)\w*\s*=|strftime|makedirs|mkdir", text)
                and "-" not in module.segment(top).replace("'-'", "")
                else "log"
            )
        elif isinstance(statement, ast.Expr) and re.match(r"(print|.*\blog(ger|ging)?\.)", text):
            into = "log"
        else:
            into = "name"
    outer = _formatted(module, call)
    return Clock(module.span(outer), module.span(statement), module.segment(outer), into)


def _formatted(module: Module, call: ast.Call) -> ast.AST:
    """`datetime.now().strftime(...)`, `int(time.time())`: the expression that gives the plain value."""
    node: ast.AST = call
    while True:
        parent = module.parents.get(node)
        grand = module.parents.get(parent) if parent is not None else None
        if isinstance(parent, ast.Attribute) and isinstance(grand, ast.Call) and grand.func is parent:
            node = grand
        elif (
            isinstance(parent, ast.Call)
            and node in parent.args
            and (module.qualified(parent.func) or "")
            in ("int", "str", "time.strftime", "time.localtime", "time.asctime", "time.ctime")
        ):
            node = parent
        else:
            return node
