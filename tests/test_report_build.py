"""Building a report: who is in which state, what led to what, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from hangscope.align.launch import Launch
from hangscope.align.recordings import Recordings
from hangscope.align.stacks import Stacks
from hangscope.align.versions import Versions
from hangscope.diagnose.loader import load_rules
from hangscope.model import (
    Consequence,
    Event,
    Evidence,
    Finding,
    Line,
    Location,
    NextStep,
    Remedy,
    Role,
    SourceRecord,
    Value,
)
from hangscope.parse.by_kind import ByKind
from hangscope.report.build import build_report
from hangscope.report.rank_states import _ELSEWHERE, _ENDED, user_frame


@dataclass
class _Process:
    host: str | None = None
    pid: int | None = None
    gpu: str | None = None
    first_time: float | None = None
    last_time: float | None = None
    last_line: Line | None = None
    line_count: int = 10
    events: list[Event] = field(default_factory=list)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(event.line.file for event in self.events))

    @property
    def by_kind(self) -> ByKind:
        return ByKind(self.events)


@dataclass
class _Stuck:
    group: str = "world"
    group_size: int | None = 4
    seq: int = 7
    op: str = "all_reduce"
    arrived: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    differing: dict[int, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    description: str = ""
    where: str = ""


@dataclass
class _Job:
    ranks: dict[int, _Process] = field(default_factory=dict)
    world_size: int | None = 4
    hosts: tuple[str, ...] = ("node01",)
    launcher: str | None = "torchrun"
    launch: Launch = field(default_factory=lambda: Launch("torchrun"))
    without_nccl: bool = False
    versions: Versions = field(default_factory=Versions)
    stuck: tuple[_Stuck, ...] = ()
    stacks: Stacks = field(default_factory=Stacks)
    recordings: Recordings = field(default_factory=Recordings)
    sources: tuple[SourceRecord, ...] = ()
    lost_tails: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def processes(self) -> tuple[_Process, ...]:
        return tuple(self.ranks.values())


@dataclass
class _Diagnosis:
    verdict: Finding
    findings: tuple[Finding, ...] = ()


def _finding(cause: str, *, ranks: tuple[int, ...] = (), time: float | None = None, **more: object) -> Finding:
    plain = Finding(
        cause=cause,
        role=Role.CAUSE,
        title=f"title of {cause}",
        ranks=ranks,
        affected_ranks=(),
        hosts=(),
        confidence=0.9,
        explanation="",
        remedies=(),
        evidence=(),
        rule=cause,
        time=time,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def _event(kind: str, number: int = 1, **fields: Value) -> Event:
    return Event("python", kind, fields, Line("rank.log", number, 0, "", ""))


def _exception(line: int, *, superseded: bool = False, number: int = 1) -> Event:
    where: Mapping[str, Value] = {"where_file": "train.py", "where_line": line, "where_function": "step"}
    return _event("exception", number, superseded=superseded, **where)


def _processes(count: int) -> dict[int, _Process]:
    return {rank: _Process("node01", 100 + rank, str(rank)) for rank in range(count)}


def _states(job: _Job, diagnosis: _Diagnosis) -> dict[int, str]:
    return {state.rank: state.state for state in build_report(job, diagnosis).ranks}


def test_states_come_from_the_findings_then_from_the_stuck_call() -> None:
    # GIVEN a rank that died, one that finished, one that never came, and one without a log
    job = _Job(_processes(5), world_size=6, stuck=(_Stuck(arrived=(0,), missing=(1, 2, 3)),))
    died, finished = _finding("gpu-out-of-memory", ranks=(1,)), _finding("exited-early", ranks=(2,))
    # WHEN the report is built
    states = _states(job, _Diagnosis(died, (died, finished)))
    # THEN each rank has the state that the strongest evidence gives it
    assert states == {0: "waiting", 1: "dead", 2: "finished", 3: "missing", 4: "unknown", 5: "unknown"}


@pytest.mark.parametrize(
    ("cause", "rule", "state"),
    [
        ("rank-vanished", "recorder-dump-absent", "silent"),
        ("rank-vanished", "ras-rank-silent", "silent"),
        ("rank-vanished", "a-rule-of-somebody", "silent"),
        ("rank-vanished", "process-not-listed", "dead"),
        ("node-failure", "ras-host-silent", "silent"),
        ("node-failure", "node-lost", "dead"),
        ("native-crash", "native-crash", "dead"),
        ("native-crash", "helper-crashed", "unknown"),
        ("exited-early", "ras-rank-left", "unknown"),
        ("exited-early", "rank-left-early", "finished"),
    ],
)
def test_nobody_is_called_dead_of_whom_only_nothing_is_heard(cause: str, rule: str, state: str) -> None:
    verdict = _finding(cause, ranks=(1,), rule=rule)
    assert _states(_Job(_processes(2), world_size=2), _Diagnosis(verdict))[1] == state


def test_whose_last_words_are_an_error_is_dead_though_nothing_more_is_heard() -> None:
    ended = _Process(last_line=Line("rank.log", 110, 0, "", ""), events=[_exception(3, number=100)])
    verdict = _finding("rank-vanished", ranks=(0,), rule="recorder-dump-absent")
    assert _states(_Job({0: ended}, world_size=1), _Diagnosis(verdict)) == {0: "dead"}


def test_every_rule_that_decides_a_state_is_there() -> None:
    rules = {rule.id: rule.cause for rule in load_rules()}
    assert rules.keys() >= _ENDED | _ELSEWHERE
    assert {rules[name] for name in _ENDED} == {"rank-vanished", "node-failure"}


def test_a_rank_that_suffers_waits() -> None:
    verdict = _finding("gpu-fell-off-bus", ranks=(1,), affected_ranks=(0,))
    assert _states(_Job(_processes(2), world_size=2), _Diagnosis(verdict)) == {0: "waiting", 1: "unknown"}


def test_ranks_of_a_healthy_job_run() -> None:
    assert _states(_Job(_processes(2), world_size=2), _Diagnosis(_finding("no-fault-found"))) == {
        0: "running",
        1: "running",
    }


def test_an_exception_among_the_last_words_is_the_end() -> None:
    ended = _Process(last_line=Line("rank.log", 110, 0, "", ""), events=[_exception(3, number=100)])
    went_on = _Process(last_line=Line("rank.log", 9000, 0, "", ""), events=[_exception(3, number=100)])
    states = _states(_Job({0: ended, 1: went_on}, world_size=2), _Diagnosis(_finding("insufficient-evidence")))
    assert states == {0: "dead", 1: "unknown"}


def test_where_is_the_last_frame_that_nothing_took_the_place_of() -> None:
    assert user_frame([_exception(3), _exception(9), _exception(12, superseded=True)]) == "train.py:9 step"
    assert user_frame([_exception(12, superseded=True)]) == "train.py:12 step"
    assert user_frame([_event("watchdog_timeout")]) is None


def test_a_damaged_world_size_does_not_fill_the_memory() -> None:
    job = _Job(_processes(2), world_size=2**40)
    assert [state.rank for state in build_report(job, _Diagnosis(_finding("no-fault-found"))).ranks] == [0, 1]


def test_job_section_spans_the_times_of_all_processes() -> None:
    job = _Job({1: _Process(first_time=5.0, last_time=9.0), 0: _Process(first_time=2.0)}, versions=Versions("2.6.0"))
    info = build_report(job, _Diagnosis(_finding("no-fault-found"))).job
    assert (info.first_time, info.last_time) == ("1970-01-01T00:00:02", "1970-01-01T00:00:09")
    assert (info.ranks_seen, info.torch_version, info.launcher) == ((0, 1), "2.6.0", "torchrun")


def test_story_goes_by_cause_then_by_time() -> None:
    # GIVEN symptoms of symptoms, whose clocks disagree with the order of causes
    verdict = _finding("gpu-out-of-memory", ranks=(1,), time=50.0)
    late = _finding("watchdog-timeout", ranks=(0,), time=70.0, explained_by="gpu-out-of-memory")
    early = _finding("peer-lost", ranks=(2,), time=60.0, explained_by="gpu-out-of-memory")
    deeper = _finding("store-lost", ranks=(3,), time=40.0, explained_by="watchdog-timeout")
    stranger = _finding("disk-full", time=1.0)
    job = _Job(_processes(4), stuck=(_Stuck(arrived=(0, 2, 3), missing=(1,)),))
    # WHEN the story is told
    story = build_report(job, _Diagnosis(verdict, (deeper, late, stranger, verdict, early))).story
    # THEN causes come before what they explain, each with its delay, and what nothing connects comes last
    assert [step.text for step in story] == [
        "title of gpu-out-of-memory",
        "all_reduce 7 of group world does not complete: rank 1 never came",
        "title of peer-lost (10 s later)",
        "title of watchdog-timeout (20 s later)",
        "title of store-lost",
        "title of disk-full (nothing above explains it)",
    ]
    assert story[0].time == "1970-01-01T00:00:50"
    assert [(step.cause, step.explained_by, step.delay_s) for step in story[2:5]] == [
        ("peer-lost", "gpu-out-of-memory", 10.0),
        ("watchdog-timeout", "gpu-out-of-memory", 20.0),
        ("store-lost", "watchdog-timeout", -30.0),
    ]


def test_a_report_that_was_taken_later_does_not_place_the_fault() -> None:
    verdict = _finding("exited-early", ranks=(1,), time=48.0, is_time_of_report=True)
    effect = _finding("peer-lost", ranks=(2,), time=39.0, explained_by="exited-early")
    seen = _finding("watchdog-timeout", ranks=(0,), time=50.0, explained_by="peer-lost", is_time_of_report=True)
    story = build_report(_Job(_processes(4)), _Diagnosis(verdict, (verdict, effect, seen))).story
    assert [(step.time, step.text) for step in story] == [
        (None, "title of exited-early (seen at 00:00:48)"),
        ("1970-01-01T00:00:39", "title of peer-lost"),
        (None, "title of watchdog-timeout (seen at 00:00:50)"),
    ]
    assert [step.delay_s for step in story] == [None, None, None]


def test_story_names_the_cause_of_what_the_verdict_does_not_explain_directly() -> None:
    # GIVEN two findings of one cause, of which the second explains another
    verdict = _finding("gpu-out-of-memory", ranks=(1,), time=50.0)
    first = _finding("peer-lost", ranks=(2,), time=60.0, explained_by="gpu-out-of-memory")
    led_to = Consequence("store-lost", "store-lost", (3,), 190.0)
    second = _finding("peer-lost", ranks=(0,), time=62.0, explained_by="gpu-out-of-memory", explains=(led_to,))
    third = _finding("store-lost", ranks=(3,), time=252.0, explained_by="peer-lost")
    # WHEN the story is told
    story = build_report(_Job(), _Diagnosis(verdict, (verdict, first, second, third))).story
    # THEN the delay is the one from the finding that explains it
    assert (story[-1].text, story[-1].delay_s) == ("title of store-lost (3 min 10 s after peer-lost)", 190.0)


def test_further_causes_tell_what_they_explain() -> None:
    verdict = _finding("gpu-out-of-memory", ranks=(1,), time=50.0)
    other = _finding("disk-full", hosts=("node02",), time=20.0)
    effect = _finding("checkpoint-stall", ranks=(3,), time=20.5, explained_by="disk-full")
    symptom = replace(_finding("peer-lost", time=30.0), role=Role.SYMPTOM)
    unlikely = replace(_finding("duplicate-gpu", time=30.0), confidence=0.4)
    story = build_report(_Job(), _Diagnosis(verdict, (verdict, other, unlikely, symptom, effect))).story
    assert [step.text for step in story] == [
        "title of gpu-out-of-memory",
        "title of disk-full (nothing above explains it)",
        "title of checkpoint-stall",
    ]


def test_story_tells_whom_the_launcher_ended() -> None:
    # GIVEN a launcher that sends SIGTERM to the peers of the rank that failed, and to it
    def closing(number: int, pid: int, time: float | None, host: str | None = "node01") -> Event:
        line = Line("agent.log", number, 0, "", f"closing {pid}", time=time, host=host)
        return Event("elastic", "closing_signal", {"worker_pid": pid, "signal": "SIGTERM"}, line)

    verdict = _finding("gpu-out-of-memory", ranks=(1,), time=50.0)
    ranks = {rank: _Process(pid=100 + rank, host="node01") for rank in range(4)}
    ranks[0].events = [closing(1, 101, 110.0), closing(2, 102, 111.0), closing(3, 103, 112.0)]
    # WHEN the story is told
    step = build_report(_Job(ranks), _Diagnosis(verdict)).story[-1]
    # THEN its victims are named, not the rank at fault
    assert step.text == "The launcher ended ranks 2,3 (1 min 1 s later)"
    assert (step.ranks, step.explained_by, step.evidence[0].at.line) == ((2, 3), "gpu-out-of-memory", 2)
    # AND processes of other hosts, or of no known rank, are counted only
    ranks[0].events = [closing(1, 102, None, "node02"), closing(2, 103, None, None)]
    assert build_report(_Job(ranks), _Diagnosis(verdict)).story[-1].text == "The launcher ended 2 processes"
    # AND without such words there is no such step
    ranks[0].events = [closing(1, 101, None)]
    assert len(build_report(_Job(ranks), _Diagnosis(verdict)).story) == 1


def test_findings_that_explain_each_other_end_the_story() -> None:
    one = _finding("peer-lost", explained_by="store-lost")
    two = _finding("store-lost", explained_by="peer-lost")
    assert len(build_report(_Job(), _Diagnosis(one, (one, two))).story) == 2


def test_no_fault_has_no_story_and_no_steps() -> None:
    report = build_report(_Job(_processes(4)), _Diagnosis(_finding("no-fault-found")))
    assert (report.story, report.next_steps) == ((), ())


def test_verdict_is_always_among_the_findings() -> None:
    verdict = _finding("no-fault-found")
    assert build_report(_Job(), _Diagnosis(verdict)).findings == (verdict,)


def test_a_sure_verdict_advises_its_remedies_only() -> None:
    verdict = _finding("shm-exhausted", remedies=(Remedy("Make it larger.", "docker run --shm-size=8g"),))
    assert build_report(_Job(), _Diagnosis(verdict)).next_steps == (
        NextStep("Make it larger.", "docker run --shm-size=8g"),
    )


def _open_job(**more: object) -> _Job:
    job = _Job({0: _Process("node01", 4242)}, world_size=4, versions=Versions("2.6.0"))
    return replace(job, **more)  # type: ignore[arg-type]


def _steps(job: _Job) -> list[NextStep]:
    return list(build_report(job, _Diagnosis(_finding("insufficient-evidence", confidence=0.3))).next_steps)


def test_host_names_of_logs_never_become_shell_code() -> None:
    job = _open_job(ranks={0: _Process("x; rm -rf /", 4242)})
    assert all("rm -rf" not in (step.command or "") for step in _steps(job))


@pytest.mark.parametrize(
    ("torch", "advised"),
    [
        ("2.1.2", False),
        ("2.2.0", True),
        ("2.10.0", True),
        ("2.11.0", False),
        (None, False),
        (("2.5.0", "2.6.0"), True),
    ],
)
def test_flight_recorder_is_advised_to_versions_that_have_it_and_have_it_off(
    torch: str | tuple[str, ...] | None, advised: bool
) -> None:
    commands = " ".join(step.command or "" for step in _steps(_open_job(versions=Versions(torch))))
    assert ("_BUFFER_SIZE=2000" in commands) is advised


def test_lost_last_lines_advise_unbuffered_output() -> None:
    job = _open_job(lost_tails=frozenset({"rank0.log"}))
    assert "export PYTHONUNBUFFERED=1" in [step.command for step in _steps(job)]


def test_nccl_debug_is_not_advised_to_who_has_it() -> None:
    line = Line("rank0.log", 1, 0, "", "", header="nccl", level="INFO")
    job = _open_job(ranks={0: _Process(events=[Event("nccl", "nccl_version", {}, line)])})
    assert not any("NCCL_DEBUG=INFO" in (step.command or "") for step in _steps(job))


def test_steps_are_few_and_none_comes_twice() -> None:
    remedies = tuple(Remedy(f"Do {number % 10}.") for number in range(20))
    verdict = _finding("watchdog-timeout", role=Role.SYMPTOM, remedies=remedies)
    steps = build_report(_open_job(), _Diagnosis(verdict)).next_steps
    assert len(steps) == len(set(steps)) == 8


def test_evidence_of_the_stuck_call_proves_its_step() -> None:
    evidence = Evidence(Location("rank0.log", 3), "text", "why")
    job = _Job(_processes(2), stuck=(_Stuck(arrived=(0,), differing={1: "barrier"}, evidence=(evidence,)),))
    step = build_report(job, _Diagnosis(_finding("collective-op-mismatch"))).story[1]
    assert step.text == "all_reduce 7 of group world does not complete: 1 rank called something else"
    assert step.evidence == (evidence,)


def test_a_verdict_about_the_stuck_call_is_not_told_twice() -> None:
    evidence = Evidence(Location("rank0.log", 3), "text", "why")
    job = _Job(_processes(2), stuck=(_Stuck(arrived=(0,), missing=(1,), evidence=(evidence,)),))
    verdict = _finding("collective-skipped", ranks=(1,), evidence=(evidence,))
    assert len(build_report(job, _Diagnosis(verdict)).story) == 1


def test_commands_name_the_process_that_is_meant() -> None:
    verdict = replace(_finding("group-order-deadlock", ranks=(1,)), remedies=(Remedy("look", "py-spy dump --pid PID"),))
    job = _Job(_processes(2), stuck=(_Stuck(arrived=(0,), missing=(1,)), _Stuck(arrived=(1,), missing=(0,))))
    report = build_report(job, _Diagnosis(verdict))
    assert report.next_steps[0].command == "ssh node01 py-spy dump --pid 101"
    # AND ranks that wait for each other wait
    assert [state.state for state in report.ranks][:2] == ["waiting", "waiting"]


@pytest.mark.parametrize(
    ("command", "ready"),
    [
        ("py-spy record --pid PID --duration 30 -o p.svg", "ssh node01 py-spy record --pid 101 --duration 30 -o p.svg"),
        ("kill -CONT PID", "ssh node01 kill -CONT 101"),
        (
            "cat /proc/PID/stack; ps -eo stat,cmd | grep ' D'",
            "ssh node01 \"cat /proc/101/stack; ps -eo stat,cmd | grep ' D'\"",
        ),
        ("tr '\\0' ' ' < /proc/PID/environ", "tr '\\0' ' ' < /proc/101/environ"),
        ("torchrun --max-restarts=0 ...", "torchrun --max-restarts=0 ..."),
    ],
)
def test_a_command_names_the_process_wherever_it_stands(command: str, ready: str) -> None:
    verdict = replace(_finding("compute-stall", ranks=(1,)), remedies=(Remedy("look", command),))
    job = _Job(ranks={1: _Process(host="node01", pid=101)})
    assert build_report(job, _Diagnosis(verdict)).next_steps[0].command == ready


def test_a_command_is_about_the_process_that_the_verdict_names() -> None:
    verdict = replace(
        _finding("process-frozen", ranks=(1,)),
        title="A child of rank 1: pid 999",
        remedies=(Remedy("", "kill -CONT PID"),),
    )
    job = _Job(ranks={1: _Process(host="node01", pid=101)})
    assert build_report(job, _Diagnosis(verdict)).next_steps[0].command == "ssh node01 kill -CONT 999"


def test_a_process_of_unknown_rank_is_named_in_commands() -> None:
    verdict = replace(
        _finding("python-deadlock"),
        title="Process 999 waits",
        hosts=(),
        remedies=(Remedy("", "py-spy dump --pid PID"),),
    )
    job = _Job(ranks={1: _Process(host="node01", pid=101)}, stuck=(_Stuck(arrived=(1,)),))
    assert build_report(job, _Diagnosis(verdict)).next_steps[0].command == "py-spy dump --pid 999"


def test_the_same_command_is_not_advised_again() -> None:
    remedy = Remedy("With native frames.", "py-spy dump --native --pid PID")
    verdict = replace(_finding("compute-stall", ranks=(1,)), confidence=0.5, remedies=(remedy,))
    commands = [s.command for s in build_report(_Job(ranks={1: _Process(pid=101)}), _Diagnosis(verdict)).next_steps]
    assert commands.count("py-spy dump --native --pid 101") == 1


def test_a_launch_that_lacks_a_node_has_no_ranks_to_ask() -> None:
    verdict = replace(_finding("rank-never-started"), confidence=0.7)
    thin = _finding("insufficient-evidence", explained_by="rank-never-started")
    report = build_report(_Job(), _Diagnosis(verdict, (verdict, thin)))
    assert not any("stack" in step.text or "every rank" in step.text for step in report.next_steps)
    # AND thin evidence is no part of the story
    assert [step.text for step in report.story] == ["title of rank-never-started"]
