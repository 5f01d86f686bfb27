"""The table of settings: names by version, what they cost, and that every remedy of every rule keeps to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hangscope.align.versions import Versions
from hangscope.diagnose.loader import load_rules
from hangscope.diagnose.rule import Rule, RuleRemedy
from hangscope.diagnose.settings import (
    NAME,
    _read,
    costs_of,
    fit_command,
    fit_remedy,
    in_order,
    known_nccl_names,
    leaves_fast_path,
    settings,
)
from hangscope.errors import RuleError
from hangscope.model import Remedy

RULES = load_rules()
REMEDIES = [(rule, remedy) for rule in RULES for remedy in rule.remedies]

# Looks like a name, and is a file's or a shell's part of one.
_PIECES = {"NCCL_IB", "NCCL_"}
_EVERY = {
    **{f"torch {v}": Versions(torch=v) for v in ("1.13.1", "2.1.0", "2.2.2", "2.5.1", "2.7.0", "2.8.0", "2.12.0")}
}
_EVERY |= {f"nccl {v}": Versions(nccl=v) for v in ("2.4.8", "2.10.3", "2.14.3", "2.21.5", "2.27.7", "2.30.7")}


def _ids(pair: tuple[Rule, RuleRemedy]) -> str:
    return f"{pair[0].id}: {pair[1].text[:40]}"


def test_every_setting_that_a_remedy_names_is_in_the_table() -> None:
    named = {
        (rule.id, name)
        for rule, remedy in REMEDIES
        for name in NAME.findall(f"{remedy.text} {remedy.command or ''}")
        if name not in _PIECES
    }
    assert [(rule, name) for rule, name in sorted(named) if name not in settings()] == []
    assert {name for _, name in named} > {"NCCL_DEBUG", "TORCH_DISTRIBUTED_DEBUG", "NCCL_P2P_DISABLE"}


@pytest.mark.parametrize("seen", _EVERY.values(), ids=_EVERY)
def test_no_remedy_sets_what_the_versions_seen_do_not_read(seen: Versions) -> None:
    for rule, remedy in REMEDIES:
        offered = fit_remedy(Remedy(remedy.text, remedy.command), seen)
        for name in re.findall(r"\b([A-Z][A-Z0-9_]+)=", (offered and offered.command) or ""):
            if name in settings():
                assert _reads(name, seen), (rule.id, name)


def _reads(name: str, seen: Versions) -> bool:
    setting = settings()[name]
    version = getattr(seen, setting.product, None)
    if version is None:
        return True
    at = _numbers(version)
    is_there = not setting.first or at[: len(_numbers(setting.first))] >= _numbers(setting.first)
    return is_there and not (setting.ignored and at >= _numbers(setting.ignored))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("."))


def test_a_remedy_that_costs_something_says_so() -> None:
    costly = [(rule, remedy) for rule, remedy in REMEDIES if remedy.command and costs_of(remedy.command)]
    assert len(costly) > 30
    for rule, remedy in costly:
        offered = fit_remedy(Remedy(remedy.text, remedy.command), Versions())
        assert offered is not None
        said = offered.text.removeprefix(remedy.text)
        assert said.startswith(" A test, not a cure: ") or said.endswith("."), (rule.id, offered.text)
        assert len(said) > 20, (rule.id, offered.text)


_OF_PROCESSES = re.compile(
    r"set_device|CUDA_VISIBLE_DEVICES|NCCL_HOSTID|--(?:ipc|pid)=host|namespace|nproc_per_node|ntasks-per-node|device_id"
    r"|\bone (?:pod|container)\b|[Pp]rocess(?:es)? (?:per|for each) |WORLD_SIZE"
)
_OF_CONNECTIVITY = re.compile(
    r"IFNAME|\bnc -|\bping\b|irewall|ecurity group|ip route|ip -br|NCCL_IB_(?:GID_INDEX|HCA)|ib_write_bw|show_gids"
)


def _stage(remedy: RuleRemedy) -> int | None:
    text = f"{remedy.text} {remedy.command or ''}"
    if leaves_fast_path(remedy.command):
        return 2
    if _OF_PROCESSES.search(text):
        return 0
    return 1 if _OF_CONNECTIVITY.search(text) else None


def test_remedies_go_from_processes_over_connectivity_to_fast_paths() -> None:
    stages = {rule.id: [stage for remedy in rule.remedies if (stage := _stage(remedy)) is not None] for rule in RULES}
    assert [name for name, found in stages.items() if found != sorted(found)] == []
    assert {stage for found in stages.values() for stage in found} == {0, 1, 2}
    assert sum(len(set(found)) > 1 for found in stages.values()) > 10


def test_fast_paths_are_left_last() -> None:
    """Also when the findings of several rules become one."""
    first = Remedy("Test it.", "NCCL_P2P_DISABLE=1")
    second = Remedy("Name the interface.", "NCCL_SOCKET_IFNAME=eth0")
    third = Remedy("Set the device.")
    assert in_order((first, second, third)) == (second, third, first)
    for rule in RULES:
        offered = tuple(Remedy(remedy.text, remedy.command) for remedy in rule.remedies)
        assert in_order(offered) == offered, rule.id


def test_no_rule_says_what_the_table_says() -> None:
    """Names by version and costs stand in one place."""
    twice = [rule.id for rule, remedy in REMEDIES if re.search(r"not a cure|costs? bandwidth", remedy.text)]
    assert twice == [], "rules/settings.toml says what a setting costs, and the report adds it"
    several = [
        rule.id
        for rule, remedy in REMEDIES
        for name in NAME.findall(remedy.command or "")
        if name in settings()
        and settings()[name].successor
        and f"{settings()[name].successor}=" in (remedy.command or "")
    ]
    assert several == []


@pytest.mark.parametrize(
    ("command", "seen", "fitted"),
    [
        ("TORCH_FR_BUFFER_SIZE=2000", {"torch": "2.6.0"}, "TORCH_NCCL_TRACE_BUFFER_SIZE=2000"),
        ("TORCH_FR_BUFFER_SIZE=2000", {"torch": "2.8.0"}, "TORCH_FR_BUFFER_SIZE=2000"),
        ("TORCH_FR_BUFFER_SIZE=2000", {}, "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_FR_BUFFER_SIZE=2000"),
        ("TORCH_FR_BUFFER_SIZE=2000", {"torch": "2.1.2"}, None),
        ("export TORCH_FR_BUFFER_SIZE=2000", {"torch": "2.1.2"}, None),
        (
            "export TORCH_FR_BUFFER_SIZE=2 TORCH_SHOW_CPP_STACKTRACES=1",
            {"torch": "2.1.2"},
            "export TORCH_SHOW_CPP_STACKTRACES=1",
        ),
        ("TORCH_NCCL_BLOCKING_WAIT=1", {"torch": "2.1.0"}, "NCCL_BLOCKING_WAIT=1"),
        ("NCCL_BLOCKING_WAIT=1", {"torch": "2.2.1"}, "NCCL_BLOCKING_WAIT=1 TORCH_NCCL_BLOCKING_WAIT=1"),
        ("NCCL_BLOCKING_WAIT=1", {"torch": "2.4.0"}, "TORCH_NCCL_BLOCKING_WAIT=1"),
        (
            "PYTORCH_ALLOC_CONF=expandable_segments:True",
            {"torch": "2.5"},
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
        ("NCCL_NET_GDR_LEVEL=0", {}, "NCCL_NET_GDR_LEVEL=0"),
        ("NCCL_NET_GDR_LEVEL=0", {"nccl": "2.3.7"}, "NCCL_IB_GDR_LEVEL=0"),
        ("NCCL_CUMEM_ENABLE=0", {"nccl": "2.14.3"}, None),
        ("NCCL_CUMEM_ENABLE=0", {"nccl": ("2.14.3", "2.21.5")}, "NCCL_CUMEM_ENABLE=0"),
        ("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL", {}, "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL"),
        ("python train.py", {"torch": "1.13"}, "python train.py"),
        ("unset NCCL_ALGO", {"nccl": "2.4.8"}, "unset NCCL_ALGO"),
        ("torchrun a.py", {"torch": "1.13"}, "torchrun a.py"),
        ("torchrun a.py", {"torch": "1.8.1"}, "python -m torch.distributed.launch --use_env a.py"),
    ],
)
def test_settings_go_under_the_name_that_the_version_reads(
    command: str, seen: dict[str, str | tuple[str, ...]], fitted: str | None
) -> None:
    versions = Versions(torch=seen.get("torch"), nccl=seen.get("nccl"))
    assert fit_command(command, versions) == fitted


@pytest.mark.parametrize(
    ("remedy", "left"),
    [
        (
            Remedy("Name the interface.", "export GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=eth0"),
            "export GLOO_SOCKET_IFNAME=eth0",
        ),
        (Remedy("Look.", "py-spy dump --pid PID"), "py-spy dump --pid PID"),
        (Remedy("Test it.", "NCCL_P2P_DISABLE=1"), None),
        (Remedy("Ask it.", "ncclras -v"), None),
        (Remedy("Ask NCCL.", "hangscope attach"), None),
        (Remedy("Test the transport.", "all_reduce_perf -b 8 -e 4G -f 2 -g 1"), None),
        (Remedy("Compare.", "env | grep NCCL_"), None),
        (Remedy("Give the files.", "hangscope analyze nccl_trace_rank_*"), "hangscope analyze nccl_trace_rank_*"),
    ],
)
def test_a_job_on_gloo_hears_nothing_of_nccl(remedy: Remedy, left: str | None) -> None:
    offered = fit_remedy(remedy, Versions(), without_nccl=True)
    assert (offered and offered.command) == left


def test_costs_depend_on_the_value() -> None:
    assert costs_of("NCCL_P2P_DISABLE=0") == costs_of("unset NCCL_P2P_DISABLE") == costs_of("NCCL_NET=IB") == ""
    assert costs_of("NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1").count("A test, not a cure: ") == 2
    assert leaves_fast_path("NCCL_NET=Socket") and not leaves_fast_path("CUDA_LAUNCH_BLOCKING=1")
    assert not leaves_fast_path(None)


def test_names_of_nccl_are_known() -> None:
    named = {"NCCL_ALGO", "NCCL_ASYNC_ERROR_HANDLING", "NCCL_SOCKET_NTHREADS", "NCCL_VERSION", "NCCL_IB_RAIL_POLICY"}
    assert named < known_nccl_names()
    assert all(name.startswith("NCCL_") for name in known_nccl_names())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[A", "Expected ']'"),
        ('[A]\nproduct = "nccl"\n', "names: is missing"),
        ('[A]\nproduct = "mccl"\n[names]\nnccl = "B"', "A.product: must be one of nccl, torch, gloo, cuda, is 'mccl'"),
        ('[A]\nproduct = "nccl"\nfirst = "new"\n[names]\nnccl = "B"', "A.first: must be a version, is 'new'"),
        ('[A]\nproduct = "nccl"\nsuccessor = "C"\n[names]\nnccl = "B"', "A.successor: 'C' is no setting of the table"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RuleError, match=re.escape(message)):
        _read(path)
