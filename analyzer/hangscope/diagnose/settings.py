"""Knows the settings that remedies name: which versions read them, under which name, and what they cost.

The table is ``rules/settings.toml``. A rule writes a setting once, under any of its names; what the user reads is
the name that the versions seen in the evidence know, and no setting that they do not know.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from hangscope.align.versions import Versions
from hangscope.diagnose.reader import Table
from hangscope.diagnose.versions import PRODUCTS, fits
from hangscope.errors import RuleError
from hangscope.expressions import expression
from hangscope.model import Remedy
from hangscope.records import dataclass
from hangscope.resources import rules_dir

FILE = "settings.toml"

NAME = expression(
    r"\b(?:NCCL|TORCH|TORCHELASTIC|TORCHINDUCTOR|PYTORCH|GLOO)_[A-Z][A-Z0-9_]*\b|\bCUDA_LAUNCH_BLOCKING\b"
)
"""What a setting of these programs looks like in text."""

_KEYS = (
    *("product", "first", "until", "successor", "deprecated", "ignored", "instead", "costs", "costs_at", "fast_path"),
)
_VERSION_KEYS = ("first", "until", "deprecated", "ignored")
_ASSIGNMENT = expression(rf"(?P<name>{NAME.pattern})=(?P<value>[^\s;]*)")
# ncclras, nccl-tests, grep NCCL_; the files of torch's flight recorder are called nccl_trace_rank_ for gloo, too
_OF_NCCL = expression(r"\bNCCL|\bnccl(?!_trace)|\b\w+_perf\b")
# Names given up before these are offered only to jobs that are known to be older.
_OLDEST_IN_USE = {"nccl": (2, 8), "torch": (2, 0)}


# torchrun came with torch 1.10, as torch.distributed.run with 1.9; before that, --use_env gave workers LOCAL_RANK.
_TORCHRUN_SINCE = "torch>=1.10"


@dataclass(frozen=True, slots=True)
class Setting:
    """One entry of the table; the head of ``settings.toml`` explains what each key means."""

    name: str
    product: str
    first: str = ""
    until: str = ""
    successor: str = ""
    deprecated: str = ""
    ignored: str = ""
    instead: str = ""
    costs: str = ""
    costs_at: tuple[str, ...] = ()
    fast_path: bool = False

    def costs_when(self, value: str) -> bool:
        """Whether it costs something at this value."""
        return bool(self.costs) and (not self.costs_at or value in self.costs_at)

    @property
    def range(self) -> str:
        """The versions to whom this name is advised, as a requirement (``torch>=2.2,<=2.7``); "" for all."""
        if self.product not in PRODUCTS:
            return ""
        limits = [f">={self.first}"] if self.first else []
        limits += [f"<={self.until}"] if self.until else [f"<{self.ignored}"] if self.ignored else []
        return self.product + ",".join(limits) if limits else ""


@functools.cache
def settings() -> Mapping[str, Setting]:
    """The shipped table, by name.

    Raises:
        RuleError: the file is wrong.
    """
    return _read(rules_dir() / FILE)[0]


@functools.cache
def known_nccl_names() -> frozenset[str]:
    """Every name that starts with ``NCCL_`` and means something to NCCL, to torch or to those who build with them."""
    listed, names = _read(rules_dir() / FILE)
    return names | {name for name in listed if name.startswith("NCCL_")}


def fit_remedy(remedy: Remedy, seen: Versions, *, without_nccl: bool = False) -> Remedy | None:
    """A remedy as the versions seen take it, with what it costs; None when they know nothing of what it sets.

    Args:
        remedy: its command may assign settings under any of their names.
        seen: versions of the evidence.
        without_nccl: the job does not use NCCL, so that its settings and tools are of no use.
    """
    if without_nccl and _OF_NCCL.search(remedy.text):
        return None
    if remedy.command is None:
        return remedy
    command = _without_nccl(remedy.command) if without_nccl else remedy.command
    command = None if command is None else fit_command(command, seen)
    if command is None:
        return None
    costs = costs_of(command)
    return Remedy(f"{remedy.text} {costs}" if costs else remedy.text, command)


def fit_command(command: str, seen: Versions) -> str | None:
    """The command with each setting under the names that the versions seen read; None when they read none of it.

    A version that nobody states may be any, so that old and new name are set side by side.
    """
    done: set[str] = set()
    for found in list(_ASSIGNMENT.finditer(command)):
        setting = settings().get(found["name"])
        if setting is None or setting.name in done:
            continue
        chain = _chain(setting)
        done.update(one.name for one in chain)
        names = _names_for(chain, seen)
        # a command that spells out several names of one setting keeps the first place
        for other in chain:
            if other.name != setting.name:
                command = re.sub(rf" ?\b{other.name}={re.escape(found['value'])}(?=\s|$)", "", command)
        written = " ".join(f"{name}={found['value']}" for name in names)
        if written:
            command = command.replace(found[0], written)
        else:
            command = re.sub(rf"(?:^| ){re.escape(found[0])}(?=[\s;]|$)", "", command)
    if not fits(_TORCHRUN_SINCE, seen):
        command = re.sub(r"\btorchrun\b", "python -m torch.distributed.launch --use_env", command)
    return command.strip() if not done or command.strip().removeprefix("export").strip() else None


def costs_of(command: str) -> str:
    """What the settings of a command cost, in whole sentences; "" when nothing."""
    said: dict[str, None] = {}
    for setting in _costly(command):
        plain = setting.costs[:1].upper() + setting.costs[1:]
        said[f"A test, not a cure: {setting.costs}" if setting.fast_path else plain] = None
    return " ".join(said)


def leaves_fast_path(command: str | None) -> bool:
    """Whether a command switches a fast path off, or forces one."""
    return command is not None and any(setting.fast_path for setting in _costly(command))


def in_order(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """Processes and connectivity first, as they come; fast paths are switched off only when all that is right."""
    return tuple(sorted(remedies, key=lambda remedy: leaves_fast_path(remedy.command)))


def _costly(command: str) -> list[Setting]:
    return [
        setting
        for found in _ASSIGNMENT.finditer(command)
        if (setting := settings().get(found["name"])) is not None and setting.costs_when(found["value"])
    ]


def _without_nccl(command: str) -> str | None:
    """A command without the settings of NCCL; None when nothing is left, or when it asks NCCL itself."""
    left = re.sub(r"(?:^|(?<=\s))(?:TORCH_)?NCCL_[A-Z0-9_]+=\S*\s*", "", command).strip()
    return left if left.removeprefix("export") and not _OF_NCCL.search(left) else None


def _chain(setting: Setting) -> list[Setting]:
    """All names of a setting, the oldest first."""
    table = settings()
    first = setting
    while (older := next((one for one in table.values() if one.successor == first.name), None)) is not None:
        first = older
    chain = [first]
    while chain[-1].successor:
        chain.append(table[chain[-1].successor])
    return chain


def _names_for(chain: list[Setting], seen: Versions) -> list[str]:
    fitting = [one for one in chain if fits(one.range, seen)]
    recent = [one for one in fitting if not _is_bygone(one)]
    return [one.name for one in recent or fitting]


def _is_bygone(setting: Setting) -> bool:
    until = tuple(int(number) for number in setting.until.split(".")) if setting.until else ()
    return bool(until) and until < _OLDEST_IN_USE.get(setting.product, ())


def _read(path: Path) -> tuple[Mapping[str, Setting], frozenset[str]]:
    label = f"{path.parent.name}/{path.name}"
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuleError(f"{label}: {error}") from error
    names = Table(label, "", values).table("names")
    names.allow(("nccl",))
    table = {name: _setting(Table(label, "", values).table(name)) for name in values if name != "names"}
    for setting in table.values():
        if setting.successor and setting.successor not in table:
            raise RuleError(f"{label}: {setting.name}.successor: {setting.successor!r} is no setting of the table")
    return MappingProxyType(table), frozenset(f"NCCL_{name}" for name in names.text("nccl").split())


def _setting(table: Table) -> Setting:
    table.allow(_KEYS)
    versions = {key: table.text(key, default="") for key in _VERSION_KEYS}
    for key, value in versions.items():
        if value and not re.fullmatch(r"\d+(?:\.\d+)*", value):
            raise table.error(key, f"must be a version, is {value!r}")
    return Setting(
        name=table.at,
        product=table.text("product", among=("nccl", "torch", "gloo", "cuda")),
        **versions,
        successor=table.text("successor", default=""),
        instead=table.text("instead", default=""),
        costs=table.text("costs", default=""),
        costs_at=table.texts("costs_at"),
        fast_path=table.flag("fast_path", default=False),
    )
