"""Points out settings in the evidence that have no effect, an old name, or a name that nobody reads."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator

from hangscope.align.versions import Versions
from hangscope.diagnose.settings import Setting, known_nccl_names, settings
from hangscope.diagnose.versions import Fit, fit, fits
from hangscope.expressions import expression
from hangscope.model import Event, NextStep
from hangscope.records import dataclass
from hangscope.report.inputs import JobView

_PRODUCTS = {"nccl": "NCCL", "torch": "PyTorch"}
_ALIKE = 0.88
# Read by plugins and tests, each of which has names of its own.
_OF_OTHERS = ("NCCL_OFI_", "NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_TESTS_", "NCCL_INSPECTOR_", "NCCL_SHARP_")
_MOST = 5
_PLAIN = expression(r"[\w./:,@%+^=-]{1,200}", re.ASCII)
_KINDS = frozenset({"environment_setting", "nccl_setting", "setting_deprecated", "old_launcher", "old_launch_command"})


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to say about a setting.

    Attributes:
        warning: what is wrong with it, and where it stands.
        step: what to do about it.
        is_lost: what was set has no effect at all.
    """

    warning: str
    step: NextStep
    is_lost: bool


def remarks_on_settings(job: JobView) -> tuple[Remark, ...]:
    """What there is to say about the settings that the evidence shows, settings without any effect first.

    Lines that show settings: ``env``, ``set -x`` and job scripts (``NCCL_X=1``), NCCL's ``NCCL_X set by environment
    to 1``, PyTorch's ``Environment variable NCCL_X is deprecated; use TORCH_NCCL_X instead`` (2.2 and later), and
    commands with ``-m torch.distributed.launch``.
    """
    found: dict[str, Remark] = {}
    for process in job.processes:
        debug: dict[str, Event] = {}
        for event in process.by_kind.of(*_KINDS):
            name = _name(event)
            if name in ("NCCL_DEBUG", "NCCL_DEBUG_FILE"):
                debug[name] = event
            remark = _on_launcher(event, job.versions) or (_on_setting(name, event, job.versions) if name else None)
            if remark is not None:
                found.setdefault(name or "torch.distributed.launch", remark)
        if (remark := _on_debug_file(debug)) is not None:
            found.setdefault("NCCL_DEBUG_FILE", remark)
    ordered = sorted(found.items(), key=lambda item: (not item[1].is_lost, item[0]))
    return tuple(remark for _, remark in ordered[:_MOST])


def _name(event: Event) -> str:
    if event.kind == "setting_deprecated":
        return str(event.fields.get("old_name", ""))
    return str(event.fields.get("name", "")) if event.kind in ("environment_setting", "nccl_setting") else ""


def _at(event: Event) -> str:
    return f"{event.line.file}:{event.line.number}"


def _on_setting(name: str, event: Event, seen: Versions) -> Remark | None:
    value = str(event.fields.get("value", ""))
    setting = settings().get(name)
    if setting is None:
        return _on_unknown(name, value, event)
    product = _PRODUCTS.get(setting.product)
    if product is None:
        return None
    shown = f"{name}={value}" if value else name
    if setting.ignored and fit(f"{setting.product}>={setting.ignored}", seen) is Fit.YES:
        advice = f" {setting.instead[:1].upper()}{setting.instead[1:]}." if setting.instead else ""
        return _lost(
            f"{shown} ({_at(event)}) has no effect: {product} does not read it from {setting.ignored} on.{advice}",
            NextStep(f"Take {name} out, it has no effect.{advice}", f"unset {name}"),
        )
    if setting.first and not fits(f"{setting.product}>={setting.first}", seen):
        return _on_too_new(setting, shown, value, event, seen)
    is_old = bool(setting.deprecated) and fit(f"{setting.product}>={setting.deprecated}", seen) is Fit.YES
    if event.kind != "setting_deprecated" and not is_old:
        return None
    new = str(event.fields.get("new_name") or setting.successor)
    if not new:
        return Remark(
            f"{shown} ({_at(event)}) is not needed any more: {setting.instead or 'it is the default'}.",
            NextStep(f"Take {name} out; {setting.instead or 'it is the default'}.", f"unset {name}"),
            is_lost=False,
        )
    since = f"{product} {setting.deprecated} and later call it" if setting.deprecated else "it is now called"
    return Remark(
        f"{shown} ({_at(event)}) is an old name, read with a warning until it is dropped: {since} {new}.",
        NextStep(f"Set {new} in place of {name}.", f"unset {name}; export {new}={_shell(value)}"),
        is_lost=False,
    )


def _on_too_new(setting: Setting, shown: str, value: str, event: Event, seen: Versions) -> Remark:
    product = _PRODUCTS[setting.product]
    older = next((one for one in settings().values() if one.successor == setting.name and fits(one.range, seen)), None)
    said = f"{shown} ({_at(event)}) has no effect: {product} reads it from {setting.first} on"
    if older is None:
        return _lost(f"{said}, and this one is older.", NextStep(f"Take {setting.name} out, or use a later {product}."))
    return _lost(
        f"{said}; this one is older and calls it {older.name}.",
        NextStep(f"Set {older.name} in place of {setting.name}.", f"export {older.name}={_shell(value)}"),
    )


def _on_unknown(name: str, value: str, event: Event) -> Remark | None:
    """A name that is known to nobody and nearly that of a setting was meant to be that."""
    if not name.startswith(("NCCL_", "TORCH_NCCL_")) or name in known_nccl_names() or name.startswith(_OF_OTHERS):
        return None
    if event.kind == "nccl_setting":
        # NCCL itself has read it
        return None
    meant = _nearest_name(name)
    if not meant:
        return None
    return _lost(
        f"{name} ({_at(event)}) is a name that neither NCCL nor PyTorch reads; {meant} was probably meant.",
        NextStep(f"Set {meant}, if that was meant by {name}.", f"export {meant}={_shell(value)}"),
    )


@functools.lru_cache(256)
def _nearest_name(name: str) -> str:
    """The known setting that is spelled nearly so, "" for none; every rank prints the same names."""
    known = known_nccl_names() if name.startswith("NCCL_") else [one for one in settings() if one.startswith("TORCH_")]
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_ALIKE)
    return close[0] if close else ""


def _on_debug_file(debug: dict[str, Event]) -> Remark | None:
    """At the level VERSION, and at none, NCCL opens no file."""
    level, file = debug.get("NCCL_DEBUG"), debug.get("NCCL_DEBUG_FILE")
    if level is None or file is None or str(level.fields.get("value", "")).upper() != "VERSION":
        return None
    return _lost(
        f"NCCL_DEBUG_FILE ({_at(file)}) has no effect with NCCL_DEBUG=VERSION: NCCL opens it from WARN on.",
        NextStep("Let NCCL write its file: raise the level.", "export NCCL_DEBUG=INFO"),
    )


def _on_launcher(event: Event, seen: Versions) -> Remark | None:
    if event.kind not in ("old_launcher", "old_launch_command") or not fits("torch>=1.10", seen):
        return None
    flag = event.fields.get("use_env")
    does = "; torchrun always does what --use_env asks for" if flag else ""
    return Remark(
        f"torch.distributed.launch ({_at(event)}) starts the job; torchrun replaced it in PyTorch 1.10{does}.",
        NextStep(
            "Start with torchrun, and read LOCAL_RANK from the environment"
            + (", without --use_env." if flag else ": it passes no --local_rank."),
            "torchrun --nproc_per_node=G train.py",
        ),
        is_lost=False,
    )


def _shell(value: str) -> str:
    """A value of the evidence as it may stand in a command; dots for one that a shell would take for more."""
    return value if _PLAIN.fullmatch(value) else "..."


def _lost(warning: str, step: NextStep) -> Remark:
    return Remark(warning, step, is_lost=True)


def steps_about_settings(job: JobView) -> Iterator[NextStep]:
    """What to do about them."""
    for remark in remarks_on_settings(job):
        decides = "whether it helps when it is read" if remark.is_lost else None
        yield NextStep(remark.step.text, remark.step.command, decides)
