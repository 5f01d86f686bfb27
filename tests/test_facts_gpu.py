"""Kernel messages about GPUs: what a number means, what to do about it, and what corrects itself."""

from __future__ import annotations

import gc
import re
import tomllib
import weakref
from pathlib import Path

import pytest

from hangscope.api import analyze_text
from hangscope.diagnose.catalogue import causes
from hangscope.facts import gpu
from hangscope.facts.codes import xid as codes
from hangscope.facts.codes.xid import recovery_step, sxid_meaning, xid_meaning
from hangscope.resources import grammars_dir
from nccl_logs import job_of

TABLE = tomllib.loads(Path(codes.__file__).with_name("xid.toml").read_text(encoding="utf-8"))
KERNEL = "[Fri Mar  3 04:23:22 2023] NVRM: Xid (PCI:0000:61:00): {}\n"
UNIT = "{}  {}   XC0 i0 Link {} (0x021425c6 {} 0x0 0x0 0x0 0x0)"


@pytest.mark.parametrize("table", ["xid", "sxid"])
def test_no_number_stands_in_two_rows(table: str) -> None:
    numbers = [number for row in TABLE[table] for number in row["numbers"]]
    assert len(numbers) == len(set(numbers)) > 80


def test_every_fault_says_where_it_lies_and_what_to_do() -> None:
    for row in TABLE["xid"]:
        assert not row["cause"] or row["cause"] in causes()
        assert not row["cause"] or (row["origin"] and row["then"] and row["first"] in TABLE["steps"]), row
    assert set(TABLE["recovery"].values()) <= TABLE["steps"].keys()


@pytest.mark.parametrize(
    ("number", "step", "origin"),
    [
        (13, "restart", "program"),
        (94, "restart", "hardware"),
        (95, "drain", "hardware"),
        (64, "retire", "hardware"),
        (79, "reboot", "hardware"),
        (119, "reset", "firmware"),
        (48, "drain", "hardware"),
        (78, "software", "set-up"),
    ],
)
def test_the_first_step_fits_the_fault(number: int, step: str, origin: str) -> None:
    meaning = xid_meaning(number)
    assert meaning is not None
    assert meaning.first == TABLE["steps"][step]
    assert origin in meaning.origin


@pytest.mark.parametrize(
    ("unit", "severity", "link", "status", "weak", "corrected"),
    [
        ("NETIR_LINK_EVT", "Fatal", "01", "0x00000000", False, False),
        ("NETIR", "Fatal", "-1", "0x00000000", True, False),
        ("NETIR_BER_EVENT", "Nonfatal", "04", "0x00000000", True, True),
        ("RLW_REMAP", "Nonfatal", "03", "0x00000004", True, False),
        ("RLW_REMAP", "Nonfatal", "03", "0x80000000", True, True),
        ("RLW_SRC_TRACK", "Nonfatal", "03", "0x00000008", True, False),
        ("RLW_SRC_TRACK", "Nonfatal", "03", "0x00000001", True, True),
        ("TLW_TX", "Nonfatal", "03", "0x00000001", True, True),
        ("SAW_MVB", "Fatal", "00", "0x00000001", False, False),
    ],
)
def test_units_of_nvlink_say_what_harms(
    unit: str, severity: str, link: str, status: str, *, weak: bool, corrected: bool
) -> None:
    meaning = xid_meaning(149, UNIT.format(unit, severity, link, status))
    assert meaning is not None
    assert (meaning.weak, meaning.corrected) == (weak, corrected)


@pytest.mark.parametrize(
    ("number", "severity", "expected"),
    [
        (20034, "", False),
        (12028, "Non-fatal", True),
        (12028, "Fatal", False),
        (99999, "Fatal", False),
        (99999, "", True),
        (24001, "Non-fatal", None),
    ],
)
def test_the_word_of_a_switch_counts_more_than_the_table(number: int, severity: str, *, expected: bool | None) -> None:
    meaning = sxid_meaning(number, severity)
    assert (meaning.weak if meaning else None) is expected


def test_the_later_wish_of_the_driver_is_the_first_step() -> None:
    wish = "154, GPU recovery action changed from {} to {}"
    log = "".join(
        KERNEL.format(text)
        for text in (
            "95, pid=7, name=python3, Uncontained: SM (0x1)",
            wish.format("0x0 (None)", "0x1 (GPU Reset Required)"),
            wish.format("0x1 (GPU Reset Required)", "0x2 (Node Reboot Required)"),
        )
    )
    [finding] = [found for found in analyze_text(log) if found.cause == "gpu-memory-fault"]
    assert "reboot the machine" in finding.remedies[0].text
    assert recovery_step(wish.format("0x2 (Node Reboot Required)", "0x0 (None)")) == ""


@pytest.mark.parametrize("number", [63, 92, 121, 160])
def test_what_corrects_itself_is_no_verdict(number: int) -> None:
    findings = analyze_text(KERNEL.format(f"{number}, pid=7, name=python3, some words"))
    assert findings[0].cause == "insufficient-evidence"
    assert len(findings) == 2


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([("0000:61:00", "python3")], ""),
        ([("0000:61:00", "python3"), ("0000:c1:00", "python3")], "seen on 2 GPUs, which speaks for the program"),
        ([("0000:61:00", "python3"), ("0000:61:00", "bench")], "stays with one GPU while the programs differ"),
    ],
)
def test_a_fault_of_a_kernel_follows_the_program_or_the_gpu(others: list[tuple[str, str]], words: str) -> None:
    line = "[Fri Mar  3 04:23:22 2023] NVRM: Xid (PCI:{}): 31, pid=7, name={}, MMU Fault: ENGINE GRAPHICS faulted\n"
    [finding] = [
        found
        for found in analyze_text("".join(line.format(bus, name) for bus, name in others))
        if found.cause == "cuda-illegal-access"
    ]
    assert words in finding.explanation
    assert ("speaks for" in finding.explanation) is bool(words)


def test_every_error_of_the_runtime_is_a_gpu_error() -> None:
    text = (grammars_dir() / "cuda.lark").read_text(encoding="utf-8")
    kinds = set(re.findall(r"-> (cuda_\w+)", text))
    samples = dict(re.findall(r"^// match (cuda_\w+): (.*) => ", text, re.MULTILINE))
    assert samples.keys() == kinds
    for kind, line in samples.items():
        errors = {fact.fields["error"] for fact in gpu.find(job_of({"job.log": line})) if fact.kind == "gpu_error"}
        assert errors == {kind.removeprefix("cuda_")}, line


@pytest.mark.parametrize(
    "line",
    [
        "node01:7:7 [0] NCCL INFO cudaDriverVersion 12040",
        "node01:7:7 [0] p2p.cc:9 NCCL WARN failed to open CUDA IPC handle : 11 invalid argument",
        "node01:7:7 [0] proxy.cc:9 NCCL WARN [Proxy Service] Failed to set CUDA device 3",
    ],
)
def test_what_nccl_says_of_cuda_is_no_gpu_error(line: str) -> None:
    job = job_of({"job.log": line})
    assert any(event.kind.startswith("cuda_") for event in job.events)
    assert not list(gpu.find(job))


def test_a_job_is_not_kept_for_what_was_asked_of_its_gpus() -> None:
    places = gpu._Places(job_of({"dmesg.txt": KERNEL.format("31, pid=1, MMU Fault")}))
    assert places.spread(31) == ""
    gone = weakref.ref(places)
    del places
    gc.collect()
    assert gone() is None
