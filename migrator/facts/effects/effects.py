"""Side effects that must happen once: what a call writes, makes, removes, asks or downloads.

The tables are data: library name → what it does and which argument is the path.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.model import Effect
from migrator.facts.python.nodes import argument, dotted
from migrator.facts.python.opened import opens_to_write
from migrator.facts.python.syntax import Module

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
