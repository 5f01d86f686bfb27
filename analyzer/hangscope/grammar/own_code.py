"""Tells the job's own code from torch, installed packages and the standard library, by the file of a frame."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hangscope.expressions import expression
from hangscope.model import Frame
from hangscope.records import dataclass

# what sys.stdlib_module_names of this Python no longer (or not yet) holds, but the job's Python may
_OTHER_STDLIB = frozenset({"asynchat", "asyncore", "distutils", "imp", "smtpd", "compression", "annotationlib"})
STDLIB = sys.stdlib_module_names | _OTHER_STDLIB

_INSTALLED = expression(r"(?:^|/)(?:site-packages|dist-packages)/|(?:^|/)lib(?:64)?/python3(?:\.\d+)?t?/|\.zip/")
# <ipython-input-3-0123456789ab>, <stdin>: typed by the user; other names in brackets are made by machines
_TYPED = expression(r"<(?:ipython-input|stdin)")
# written by compilers: torch.compile's kernels, extensions built on the fly
_GENERATED = expression(r"/torchinductor_[^/]*/|/torch_extensions/|/\.triton/")
_NOTEBOOK_CELL = expression(r"/ipykernel_\d+/\d+\.py$")


@dataclass(frozen=True, slots=True)
class OwnCode:
    """What is not the job's own.

    Attributes:
        libraries: packages that are no code of the job, wherever a relative path begins with them.
        folders: pieces of absolute paths that mark such a package (``torch/distributed``).
    """

    libraries: tuple[str, ...]
    folders: tuple[str, ...]

    def is_own(self, frame: Frame, script: str | None = None) -> bool:
        """Whether the frame is of the job's own code; `script` is the file of its main program, when known."""
        file = frame.file
        if frame.native or not file:
            return False
        file = file.replace("\\", "/")
        if script is not None and file == script:
            return True
        if file.startswith("<"):
            return _TYPED.match(file) is not None
        if _INSTALLED.search(file) or _GENERATED.search(file) or file == "???":
            return False
        if _NOTEBOOK_CELL.search(file):
            return True
        if not file.endswith((".py", ".pyx", ".ipynb")):
            return False  # torchrun, accelerate, pytest: scripts of installed packages
        if file.startswith("/"):
            return not any(f"/{folder}/" in file for folder in self.folders)
        top, slash, _ = file.removeprefix("./").partition("/")
        name = top if slash else top.rpartition(".")[0]
        return name not in STDLIB and (not slash or name not in self.libraries)

    def script(self, frames: Sequence[Frame]) -> str | None:
        """The main program by its outermost frame: ``profile.py`` may be the user's, though a library has that name."""
        outermost = next((frame for frame in reversed(frames) if not frame.native), None)
        if outermost is None or outermost.function != "<module>" or not outermost.file:
            return None
        file = outermost.file
        return file if file.endswith(".py") and "/" not in file.removeprefix("./") else None

    def innermost(self, frames: Sequence[Frame]) -> tuple[Frame | None, bool]:
        """Innermost frame of the job's own code, else of a library that is not part of Python or torch, else None.

        Returns:
            The frame, and whether it is the job's own.
        """
        script = self.script(frames)
        python = [frame for frame in frames if not frame.native and frame.file]
        for frame in python:
            if self.is_own(frame, script):
                return frame, True
        return next((frame for frame in python if _says_something(frame)), None), False


def _says_something(frame: Frame) -> bool:
    """A frame of a library that is neither Python's nor torch's."""
    file = (frame.file or "").replace("\\", "/")
    package = file.rpartition("-packages/")[2]
    top = package.removeprefix("./").partition("/")[0].removesuffix(".py")
    in_stdlib = "/lib/python3" in f"/{file}" and "-packages/" not in file
    return not (in_stdlib or file.startswith("<") or top in STDLIB or top == "torch" or "/torch/distributed/" in file)
