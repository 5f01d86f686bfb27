"""nvidia-smi: nested reports, tables and lists with commas; what of it is a fault, and whose GPU it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.facts import smi
from hangscope.model import Fact
from nccl_logs import Rank, job_of, parse

GPU = "GPU 00000000:19:00.0"


def problems(*lines: str) -> list[tuple[object, int]]:
    found = parse([GPU, *lines], "smi.txt").events
    return [(event.fields["problem"], event.line.number) for event in found if event.kind == "smi_problem"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["    ECC Errors", "        Volatile", "            DRAM Uncorrectable      : 2"], "ecc-uncorrectable"),
        (["    ECC Errors", "        Aggregate", "            DRAM Uncorrectable      : 2"], None),
        (["    ECC Errors", "        Volatile", "            DRAM Correctable        : 2"], None),
        (["    Ecc Errors", "        Volatile", "            DRAM Uncorrectable      : N/A"], None),
        (
            ["    ECC Errors", "        Volatile", "            Double Bit", "                Device Memory  : 1"],
            "ecc-uncorrectable",
        ),
        (["    Remapped Rows", "        Remapping Failure Occurred : Yes"], "remap-failed"),
        (["    Remapped Rows", "        Pending : Yes"], "remap-pending"),
        (["    Retired Pages", "        Pending Page Blacklist : Yes"], "remap-pending"),
        (["    GPU Reset Status", "        Reset Required : Yes"], "reset-required"),
        (["    GPU Recovery Action : Reset"], "reset-required"),
        (["    GPU Recovery Action : None"], None),
        (["    Fabric", "        State : In Progress"], "fabric-not-ready"),
        (["    Fabric", "        State : Completed", "        Status : Success"], None),
        (["    Fabric", "        State : N/A", "        Status : N/A"], None),
        (["    Clocks Throttle Reasons", "        HW Slowdown : Active"], "slowed"),
        (["    Clocks Throttle Reasons", "        SW Power Cap : Active"], None),
        (["    Utilization", "        GPU : Unknown Error"], "unreadable"),
    ],
)
def test_report_of_a_gpu(lines: list[str], problem: str | None) -> None:
    assert problems(*lines) == ([] if problem is None else [(problem, len(lines) + 1)])


def test_indentation_ends_a_section() -> None:
    # GIVEN a key of the next section that has the name of one before
    assert problems("    Remapped Rows", "        Pending : No", "    Other", "        Pending : Yes") == []


def test_gpu_is_told_with_load_power_and_processes() -> None:
    lines = [
        GPU,
        "    Minor Number : 3",
        "    Utilization",
        "        GPU : 100 %",
        "    GPU Power Readings",
        "        Average Power Draw : 85.09 W",
        "        Current Power Limit : 700.00 W",
        "    Processes",
        "        Process ID : 103",
    ]
    (event,) = [event for event in parse(lines).events if event.kind == "smi_gpu"]
    assert event.fields == {
        "bus": "00000000:19:00.0",
        "gpu_index": 3,
        "used_percent": 100.0,
        "power_w": 85.09,
        "limit_w": 700.0,
        "processes": (103,),
    }


def test_summary_table() -> None:
    lines = [
        "|   1  NVIDIA H100 80GB HBM3          On  |   00000000:3B:00.0 Off |                    2 |",
        "| N/A   34C    P0            118W /  700W |   71234MiB /  81559MiB |     97%      Default |",
        "|   3  ERR!                Off  | 00000000:61:00.0 Off |                 ERR! |",
    ]
    gpu, errors, row = parse(lines).events
    assert (gpu.fields["gpu_index"], gpu.fields["used_percent"], gpu.fields["power_w"]) == (1, 97.0, 118.0)
    assert (errors.fields["problem"], errors.fields["value"], row.kind) == ("ecc-uncorrectable", "2", "smi_error_row")


def csv(*loads: int, power: float = 80.0) -> list[str]:
    return [
        "utilization.gpu [%], power.draw [W], power.limit [W]",
        *(f"{load} %, {power} W, 700.00 W" for load in loads),
    ]


def of(*files: list[str]) -> list[Fact]:
    return list(smi.find(job_of({f"node01-{number}.csv": lines for number, lines in enumerate(files)})))


def test_one_idle_gpu_among_busy_ones() -> None:
    (fact,) = of(csv(100, 100, 0, 100))
    assert (fact.kind, fact.fields["gpu"], fact.fields["others"], fact.evidence[0].at.line) == (
        "smi_gpu_idle",
        "2",
        3,
        4,
    )


def test_gpus_that_are_all_busy_tell_nothing() -> None:
    assert of(csv(100, 99)) == of(csv(100, 99, power=600.0)) == []


def test_rank_of_a_gpu_by_its_process_and_by_its_bus() -> None:
    logs = {f"{rank}.log": Rank(rank, 3, host="node01").init().lines for rank in range(3)}
    row = "|    2   N/A  N/A       101      C   .../bin/python    15992MiB |"
    (fact,) = smi.find(job_of({**logs, "node01-smi.csv": csv(100, 100, 0), "node01-nvidia-smi.txt": [row]}))
    assert (fact.ranks, fact.hosts) == ((1,), ("node01",))
    lines = [GPU, "    GPU Recovery Action : Reset"]
    one = Rank(0, 3, host="node01").init().lines
    (fault,) = smi.find(job_of({"0.log": one, "node01-smi.txt": lines}))
    assert (fault.kind, fault.ranks) == ("smi_fault", (0,))


_TEXT = st.text(alphabet="GPUECRrorsVolatile:|%W/ \t0123456789.,-", max_size=80)


@given(st.lists(_TEXT, max_size=10))
def test_any_lines_of_nvidia_smi_are_read(lines: list[str]) -> None:
    for head in (GPU, "index, power.draw [W]", "|   1  X  On  |   00000000:3B:00.0 Off |  2 |", "GPU 0: X (UUID: G)"):
        assert parse([head, *lines]).record.error is None


def test_the_part_on_the_fabric_is_read_without_its_gpu() -> None:
    lines = ["    Fabric", "        State : In Progress", "        Status : N/A", "node01: step 3 : In Progress"]
    found = [e for e in parse(lines, "a.log").events if e.kind == "smi_problem"]
    assert [(e.fields["problem"], e.fields["bus"], e.line.number) for e in found] == [("fabric-not-ready", None, 2)]
