"""Side effects that must happen once: what a call writes, makes, removes, asks or downloads.

The tables are data: library name → what it does and which argument is the path.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.model import Clock, Effect
from migrator.facts.nodes import FunctionNode, argument, dotted
from migrator.facts.opened import opens_to_write
from migrator.facts.scopes import Scope
from migrator.facts.syntax import Module

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
    "imageio.mimsave": ("write", 0, "uri"),
    "imageio.v2.imwrite": ("write", 0, "uri"),
    "imageio.v3.imwrite": ("write", 0, "uri"),
    "torchvision.io.write_png": ("write", 1, "filename"),
    "torchvision.io.write_jpeg": ("write", 1, "filename"),
    "torchvision.io.write_video": ("write", 0, "filename"),
    "matplotlib.pyplot.imsave": ("write", 0, "fname"),
    "matplotlib.pyplot.savefig": ("write", 0, "fname"),
    "joblib.dump": ("write", 1, "filename"),
    "shutil.copy": ("write", 1, "dst"),
    "shutil.copy2": ("write", 1, "dst"),
    "shutil.copyfile": ("write", 1, "dst"),
    "shutil.copytree": ("write", 1, "dst"),
    "shutil.move": ("write", 1, "dst"),
    "os.rename": ("write", 1, "dst"),
    "os.replace": ("write", 1, "dst"),
    "os.renames": ("write", 1, "new"),
    "os.symlink": ("write", 1, "dst"),
    "os.link": ("write", 1, "dst"),
    "os.remove": ("remove", 0, "path"),
    "os.unlink": ("remove", 0, "path"),
    "os.rmdir": ("remove", 0, "path"),
    "os.removedirs": ("remove", 0, "name"),
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
    "urllib.urlretrieve": ("download", 1, "filename"),
    "wget.download": ("download", 1, "out"),
    "gdown.download": ("download", 1, "output"),
    "torch.hub.download_url_to_file": ("download", 1, "dst"),
    "torchvision.datasets.utils.download_url": ("download", 1, "root"),
    "logging.FileHandler": ("sink", 0, "filename"),
    "logging.basicConfig": ("sink", -1, "filename"),
    "logging.handlers.RotatingFileHandler": ("sink", 0, "filename"),
    "logging.handlers.TimedRotatingFileHandler": ("sink", 0, "filename"),
    "logging.handlers.WatchedFileHandler": ("sink", 0, "filename"),
    "logging.config.dictConfig": ("write", -1, ""),
    "logging.config.fileConfig": ("write", -1, ""),
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
_METHODS: dict[str, str] = {
    "savefig": "write",
    "to_csv": "write",
    "save_pretrained": "write",
    "to_pickle": "write",
    "write_text": "write",
    "write_bytes": "write",
    "unlink": "remove",
    "extractall": "download",
}
# Files that hold several things, with the keyword of their path: they can be made in memory as well.
FILES_OF_MANY = {"h5py.File": "name", "zipfile.ZipFile": "file"}
_MODE = re.compile(r"[rwaxbt+]{1,3}")
_CLOCK = re.compile(
    r"^(time\.(time|strftime|asctime|ctime|localtime|time_ns)|datetime\.(datetime\.)?(now|today|utcnow)|datetime\.date\.today"
    r"|os\.getpid|uuid\.uuid[14]|os\.urandom|secrets\.\w+|tempfile\.mk(d?temp)|socket\.gethostname|hash)$"
)
# Calls that spell a time in another way.
_SPELLINGS = ("int", "str", "time.strftime", "time.localtime", "time.asctime", "time.ctime")
# Calls in which a value is only shown, and calls that make a name of it.
_SHOWN = re.compile(
    r"(^|\.)(print|pprint|write|log|info|debug|warn|warning|error|append|cprint|sleep|total_seconds|add_scalar)$"
)
_TRAINS_OR_ENDS = re.compile(
    r"(^|[._])(step|backward|train|fit|eval|evaluate|validate|val|test)\w*$|^(sys\.exit|exit|quit|os\._exit)$"
)
_OUTPUTS = frozenset({"print", "sys.stdout.write", "sys.stderr.write"})
_FORMATS = re.compile(
    r"(^|\.)(print|write|flush|format|join|ljust|rjust|append|items|keys|values|len|str|int|float|abs|max|min|sum|mean|round|floor"
    r"|ceil|log10|range|enumerate|zip|isinstance|time|strftime|sorted)$"
)
_NAMED = re.compile(
    r"(^|\.)(join|Path|open|makedirs|mkdir|mkdirs|SummaryWriter|FileHandler|save|savefig|imwrite|basicConfig|exists|isdir|touch)$"
)
_PATHLIKE = re.compile(
    r"dir|path|name|file|folder|(^|_)(id|exp|run|version|suffix|prefix|stamp|tag)(_|$)", re.IGNORECASE
)
_RANDOM = ("torch.rand", "torch.normal", "torch.bernoulli", "numpy.random.", "random.")
_CUDA = re.compile(r"^torch\.(cuda\.(?!is_available|device_count|amp\b)|set_default_tensor_type|set_default_device)")
# Layers and models that start with random weights, and tensors of random numbers.
_DRAWN = re.compile(
    r"torch\.nn\.(Linear|LazyLinear|Bilinear|Conv\w+|Embedding\w*|LSTM|GRU|RNN|Transformer\w*|MultiheadAttention)$"
    r"|torchvision\.models\.\w+$|torch\.(rand|randn|randint|randperm|normal)$|numpy\.random\.(rand|randn|randint|permutation|shuffle|choice)$"
)
_SEED = re.compile(r"(^|\.)(manual_seed(_all)?|seed|set_seed|fix_seed|RandomState|default_rng|seed_everything)$")


def classify(module: Module, call: ast.Call, name: str, saves_image: bool = False) -> Effect | None:
    """The effect of a call, or None; `saves_image` when it is known to be the `save` of a picture."""
    kind, position, keyword = ("write", 0, "fp") if saves_image else ("", -1, "")
    if name in _CALLS:
        kind, position, keyword = _CALLS[name]
    elif name in ("open", "io.open", "codecs.open", "gzip.open") or name.endswith("gfile.GFile"):
        if opens_to_write(module, call, argument(call, "mode", 1)):
            kind, position, keyword = "open", 0, "file"
    elif name in FILES_OF_MANY:
        if opens_to_write(module, call, argument(call, "mode", 1)):
            kind, position, keyword = "open", 0, FILES_OF_MANY[name]
    elif isinstance(call.func, ast.Attribute):
        method = call.func.attr
        if method in _METHODS:
            kind, position, keyword = _METHODS[method], 0, ""
        elif method == "save" and is_image(module, call.func.value, 0):
            kind, position, keyword = "write", 0, "fp"
        elif method == "open" and _MODE.fullmatch(_text(argument(call, "mode", 0))):
            kind = "open" if opens_to_write(module, call, argument(call, "mode", 0)) else ""
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


def is_image(module: Module, node: ast.AST, depth: int = 0) -> bool:
    """True for a picture of PIL, as far as its making is in sight."""
    if isinstance(node, ast.Call):
        name = module.qualified(node.func) or ""
        if name.startswith("PIL.Image.") or name.endswith("to_pil_image"):
            return True
        if isinstance(node.func, ast.Call):  # transforms.ToPILImage()(x)
            return (module.qualified(node.func.func) or "").endswith(".ToPILImage")
        return isinstance(node.func, ast.Attribute) and is_image(module, node.func.value, depth)
    if isinstance(node, ast.Name) and depth < 3:
        found = module.lookup(node.id, module.scope_of.get(node, module.scope))
        values = [b.value for b in found[1] if b.kind == "assign"] if found else []
        return bool(values) and all(v is not None and is_image(module, v, depth + 1) for v in values)
    return False


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def acts_alone(module: Module, call: ast.Call, name: str) -> bool:
    """True for a call that seeds, draws random numbers, uses a GPU, or has an effect that one process must have alone."""
    if name.startswith(_RANDOM) or _CUDA.match(name) or _SEED.search(name):
        return True
    if draws_or_moves(call, name):
        return True
    effect = classify(module, call, name)
    if effect is not None and effect.kind not in ("folder", "path_mkdir"):
        return True
    seen = clock(module, call, name)
    return seen is not None and seen.into != "log"


def seeds(name: str) -> bool:
    """True for a call that seeds: it asks nothing of the other processes."""
    return bool(_SEED.search(name))


def draws_or_moves(call: ast.Call, name: str) -> bool:
    """True for a layer or model, whose weights are drawn when it is made, and for a move to the GPU."""
    moves = isinstance(call.func, ast.Attribute) and call.func.attr == "cuda" and not name.startswith("torch.cuda")
    return moves or bool(_DRAWN.match(name))


def clock(module: Module, call: ast.Call, name: str) -> Clock | None:
    """A call whose value differs between processes, with what the value flows into."""
    if not _CLOCK.match(name):
        return None
    outer = _formatted(module, call)
    measured = outer is call and name in ("time.time", "time.time_ns")  # by far the commonest use is a stop watch
    into = _Flow(module, measured).into(outer)
    if name == "hash" and (into == "name" or all(_is_number(a) for a in call.args)):
        return None  # texts are hashed with a seed of each process's own; what is only stored may serve to look up
    return Clock(module.span(outer), module.span(module.statement(call)), module.segment(outer), into)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func) or ""


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes)


class _Flow:
    """Follows a value of the clock through names and attributes of one module to what it decides."""

    def __init__(self, module: Module, measured: bool):
        self.module, self.measured = module, measured
        self._seen: set[str] = set()

    def into(self, node: ast.AST) -> str:
        """The gravest use: seed before condition before name; `log` when the value is only shown or measured."""
        found = set(self._uses(node, False))
        if self.module.segment(node).endswith("gethostname()"):
            found.discard("condition")  # paths by machine are meant to differ between machines
        return next((use for use in ("seed", "condition", "name") if use in found), "log")

    def _uses(self, node: ast.AST, duration: bool) -> Iterator[str]:
        module = self.module
        child: ast.AST = node
        for ancestor in module.ancestors(node):
            if isinstance(ancestor, ast.stmt):
                yield from self._in_statement(ancestor, child, duration)
                return
            if isinstance(ancestor, ast.BinOp) and isinstance(ancestor.op, ast.Sub):
                duration = True
            elif isinstance(ancestor, ast.Call) and child is not ancestor.func:
                called = module.qualified(ancestor.func) or (
                    ancestor.func.attr if isinstance(ancestor.func, ast.Attribute) else ""
                )
                if _SEED.search(called):
                    yield "seed"
                    return
                if _SHOWN.search(called):
                    return
                if _NAMED.search(called) and not duration:
                    yield "name"
                    return
            elif isinstance(ancestor, ast.keyword) and not duration and _PATHLIKE.search(ancestor.arg or ""):
                yield "name"
                return
            child = ancestor

    def _in_statement(self, statement: ast.stmt, child: ast.AST, duration: bool) -> Iterator[str]:
        if isinstance(statement, ast.If | ast.While):
            if child is statement.test and (isinstance(statement, ast.While) or self._decides(statement)):
                yield "condition"
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from self._in_target(target, duration)
        elif isinstance(statement, ast.For | ast.With | ast.Return | ast.Expr) and not duration and not self.measured:
            yield "name"  # it leaves our sight

    def _in_target(self, target: ast.expr, duration: bool) -> Iterator[str]:
        text = dotted(target)
        if text is None:
            if isinstance(target, ast.Subscript) and not duration and _PATHLIKE.search(self.module.segment(target)):
                yield "name"
            elif isinstance(target, ast.Tuple | ast.List):
                for element in target.elts:
                    yield from self._in_target(element, duration)
            return
        if text in self._seen:
            return
        self._seen.add(text)
        scope = self.module.scope_of.get(target)
        used = False
        for node in self.module.nodes:
            if (
                isinstance(node, ast.Name | ast.Attribute)
                and isinstance(node.ctx, ast.Load)
                and dotted(node) == text
                and ("." in text or self._same_scope(node, text, scope))
            ):
                used = True
                yield from self._uses(node, duration)
        if isinstance(target, ast.Attribute) and not used and not duration and _PATHLIKE.search(target.attr):
            yield "name"  # another module may read it

    def _decides(self, statement: ast.If) -> bool:
        """True when a branch of the `if` leaves a loop, a function or the program, or runs something of the training."""
        for part in [*statement.body, *statement.orelse]:
            for node in ast.walk(part):
                if isinstance(node, ast.Break | ast.Continue | ast.Raise):
                    return True
                if isinstance(node, ast.Return) and not self._only_shows(node):
                    return True
                if isinstance(node, ast.Call) and _TRAINS_OR_ENDS.search(dotted(node.func) or ""):
                    return True
        return False

    def _only_shows(self, leave: ast.Return) -> bool:
        """True when a function that is left has nothing to give back, and all that it calls is known to show or to format."""
        function = next((a for a in self.module.ancestors(leave) if isinstance(a, FunctionNode)), None)
        if function is None or leave.value is not None:
            return False
        calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
        return any(dotted(c.func) in _OUTPUTS for c in calls) and all(_FORMATS.search(_called(c)) for c in calls)

    def _same_scope(self, node: ast.AST, name: str, scope: Scope | None) -> bool:
        found = self.module.lookup(name, self.module.scope_of.get(node, self.module.scope))
        return found is not None and (found[0] is scope or scope is None or name in scope.globals)


def _formatted(module: Module, call: ast.Call) -> ast.AST:
    """`datetime.now().strftime(...)`, `int(time.time())`: the expression that gives the plain value."""
    node: ast.AST = call
    while True:
        parent = module.parents.get(node)
        grand = module.parents.get(parent) if parent is not None else None
        if isinstance(parent, ast.Attribute) and isinstance(grand, ast.Call) and grand.func is parent:
            node = grand
        elif isinstance(parent, ast.Subscript | ast.Call) and _goes_on(module, parent, node):
            node = parent
        else:
            return node


def _goes_on(module: Module, parent: ast.Subscript | ast.Call, node: ast.AST) -> bool:
    """True when the parent takes a part of the value, or spells it in another way."""
    if isinstance(parent, ast.Subscript):
        return parent.value is node and isinstance(parent.slice, ast.Constant)
    return node in parent.args and (module.qualified(parent.func) or "") in _SPELLINGS
