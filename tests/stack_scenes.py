"""Writes the stacks of a job's processes as the tools print them, from one short form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_FRAME = re.compile(r"(?P<function>\S.*?) \((?P<file>[^()]+?)(?::(?P<line>\d+))?\)$")
_SITE = "/opt/venv/lib/python3.11/site-packages/"
_PACKAGES = (
    *("torch/", "deepspeed/", "megatron/", "accelerate/", "lightning/", "vllm/", "sglang/", "transformers/", "triton/"),
    *("botocore/", "safetensors/", "torchmetrics/"),
)


@dataclass(frozen=True)
class Frame:
    """A frame of a scene."""

    function: str
    file: str
    line: int

    @property
    def bare(self) -> str:
        """The name without its class, as Pythons before 3.11 and faulthandler have it."""
        return self.function.rpartition(".")[2]

    @property
    def path(self) -> str:
        """The whole path."""
        if self.file.startswith(("/", "<")):
            return self.file
        if self.file.startswith(_PACKAGES):
            return _SITE + self.file
        stdlib = ("threading.py", "queue.py", "selectors.py", "subprocess.py", "ssl.py", "multiprocessing/")
        return f"/usr/lib/python3.11/{self.file}" if self.file.startswith(stdlib) else f"/workspace/{self.file}"


@dataclass(frozen=True)
class Thread:
    """A thread of a scene; `status` is py-spy's."""

    name: str
    status: str
    frames: tuple[Frame, ...]


Scene = Mapping[int, str]
"""Rank -> its threads, one a line, the main thread first: ``[name|status:] frame < frame < ...``, innermost first."""

_HEAD = re.compile(r"\[(?P<name>[^|\]]*)\|?(?P<status>[^\]]*)\] ?")


def threads_of(text: str) -> list[Thread]:
    """The threads of one process."""
    threads: list[Thread] = []
    for line in text.strip().splitlines():
        head = _HEAD.match(line.strip())
        body = line.strip()[head.end() :] if head else line.strip()
        frames = []
        for part in body.split(" < "):
            found = _FRAME.match(part.strip())
            assert found is not None, part
            frames.append(Frame(found["function"], found["file"], int(found["line"] or 0)))
        name = (head["name"] if head else "") or ("" if threads else "MainThread")
        threads.append(Thread(name, (head["status"] if head else "") or "idle", tuple(frames)))
    return threads


def pid_of(rank: int) -> int:
    """The process id that the scenes give to a rank."""
    return 41_000 + 7 * rank


def _shown(frame: Frame) -> str:
    return f"{frame.function} ({frame.file}:{frame.line})" if frame.line else f"{frame.function} ({frame.file})"


def pyspy(scene: Scene) -> dict[str, str]:
    """One file a rank, as py-spy dump prints it."""
    files = {}
    for rank, text in scene.items():
        pid = pid_of(rank)
        lines = [f"Process {pid}: python -u train.py", "Python v3.11.7 (/usr/bin/python3.11)", ""]
        for at, thread in enumerate(threads_of(text)):
            lines.append(f'Thread {pid + at} ({thread.status}): "{thread.name}"')
            lines += [f"    {_shown(frame)}" for frame in thread.frames]
        files[f"pyspy/rank{rank}.txt"] = "\n".join(lines) + "\n"
    return files


def pyspy_in_one_file(scene: Scene) -> dict[str, str]:
    """All ranks in one file, behind a header that a shell loop prints."""
    blocks = []
    for rank, (_, text) in zip(scene, pyspy(scene).items(), strict=True):
        blocks.append(f"=== rank {rank} ===\n{text}\n")
    return {"stacks.txt": "".join(blocks)}


def pyspy_json(scene: Scene) -> dict[str, str]:
    """One file a rank, as py-spy dump --json prints it: the main thread last, no command."""
    files = {}
    for rank, text in scene.items():
        pid = pid_of(rank)
        threads: list[dict[str, Any]] = []
        for at, thread in enumerate(threads_of(text)):
            frames = [
                {
                    "name": frame.function,
                    "filename": frame.path,
                    "module": None,
                    "short_filename": frame.file,
                    "line": frame.line,
                    "locals": None,
                    "is_entry": True,
                }
                for frame in thread.frames
            ]
            threads.append(
                {
                    "pid": pid,
                    "thread_id": 139_000_000 + at,
                    "thread_name": thread.name or None,
                    "os_thread_id": pid + at,
                    "active": thread.status.startswith("active"),
                    "owns_gil": thread.status.endswith("gil"),
                    "frames": frames,
                    "process_info": None,
                }
            )
        files[f"dump_rank{rank}.json"] = json.dumps(threads[::-1], indent=2)
    return files


def _faulthandler(text: str, prefix: str = "", head: str = "") -> str:
    threads = threads_of(text)
    lines = [head] if head else []
    for at, thread in reversed(list(enumerate(threads))):
        current = "Current thread" if not at and not head else "Thread"
        lines.append(f"{current} 0x{0x7F00_0000_0000 + 4096 * at:016x} (most recent call first):")
        lines += [f'  File "{f.path}", line {f.line} in {f.bare}' for f in thread.frames]
        if at:
            lines.append("")
    return "".join(f"{prefix}{line}\n" for line in lines)


def faulthandler(scene: Scene) -> dict[str, str]:
    """One log a rank: training output, and the dump after SIGUSR1."""
    return {f"logs/rank{r}/stderr.log": "loading\n" + _faulthandler(text) for r, text in scene.items()}


def faulthandler_prefixed(scene: Scene) -> dict[str, str]:
    """All ranks in one log, behind torchrun's prefix, by a timer."""
    blocks = [_faulthandler(text, f"[default{r}]:", "Timeout (0:05:00)!") for r, text in scene.items()]
    return {"job.log": "[default0]:step 10 loss 2.5\n" + "".join(blocks)}


def pystack(scene: Scene) -> dict[str, str]:
    """One file a rank: outermost frame first, the newest thread first."""
    files = {}
    for rank, text in scene.items():
        lines = []
        for at, thread in reversed(list(enumerate(threads_of(text)))):
            lines.append(f"Traceback for thread {pid_of(rank) + at} (python) [] (most recent call last):")
            lines += [f'    (Python) File "{f.path}", line {f.line}, in {f.bare}' for f in reversed(thread.frames)]
            lines.append("")
        files[f"pystack-rank-{rank}.txt"] = "\n".join(lines)
    return files


def debug_server(scene: Scene) -> dict[str, str]:
    """The page of torch.distributed.debug: a header a rank, then what faulthandler prints."""
    blocks = [
        f"=== Rank {r}: http://node01:43577/handler/dump_traceback? ===\n" + _faulthandler(text) + "\n"
        for r, text in scene.items()
    ]
    return {"stacks_20261129_163543.txt": "".join(blocks)}


TOOLS: dict[str, Callable[[Scene], dict[str, str]]] = {
    "py-spy": pyspy,
    "py-spy in one file": pyspy_in_one_file,
    "py-spy --json": pyspy_json,
    "faulthandler": faulthandler,
    "faulthandler behind a prefix": faulthandler_prefixed,
    "pystack": pystack,
    "debug server": debug_server,
}
