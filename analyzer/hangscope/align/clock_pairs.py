"""Finds what different hosts printed about one moment: the evidence that `align.clocks` compares clocks by.

Only lines whose distance in time is known from how the program works are taken:

- NCCL's "Init COMPLETE" of one communicator: the last exchange of its init is over on all ranks within milliseconds,
  and within a second or two on loaded hosts (seen with NCCL 2.27 to 2.30).
- torchrun's "Rendezvous complete for workers": agents look at the rendezvous about once a second (torch 1.9 to 2.14).
- The dump signal of torch's heartbeat monitor: a rank whose call timed out puts it into the store, where the others
  look every second (TORCH_NCCL_COORD_CHECK_MILSEC; torch 2.2 to 2.14). They may print it first.
- Watchdog timeouts of one call: nobody can have begun to wait later than the first one's timeout after it. So wide
  a bound tells zones apart, and nothing less.
- On one host, the kernel's OOM kill and the launcher's or shell's word on the same process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hangscope.align.clocks import Bound, Clocks, Moment, compare_clocks, zone_of
from hangscope.align.groups import Group
from hangscope.align.process import Process
from hangscope.model import Event

_INIT_SLACK_S = 3.0
_RENDEZVOUS_SLACK_S = 5.0
_SIGNAL_BEFORE_S, _SIGNAL_AFTER_S = 2.0, 10.0
_DEATH_SLACK_S = 60.0
_MOST_GROUPS = 64
_MOST_WORKS = 64
_MOST_ROUNDS = 64
_RAN_LONGER_S = 60.0
"""A watchdog may look, and print, so much later than the timeout: it is busy with others' or a dump."""

_KINDS = (
    "rendezvous_complete",
    "watchdog_timeout",
    "watchdog_dump_signal",
    "watchdog_remote_dump_signal",
    "oom_killed",
    "worker_failed",
    "shell_process_ended",
)

Seen = dict[str, list[float]]
"""Host -> the times its processes printed."""


def find_clocks(events: Sequence[Event], groups: Iterable[Group], ranks: Mapping[int, Process]) -> Clocks:
    """The clocks of the job's hosts, as far as anything compares them.

    Args:
        events: all events, with their hosts.
        groups: the communicators over all processes.
        ranks: global rank -> process.
    """
    # a job has many events, and few of these
    events = [event for event in events if event.kind in _KINDS]
    moments = [*_inits(groups), *_rendezvous(events), *_timeouts(events)]
    first = ranks[0].host if 0 in ranks else None
    return compare_clocks(moments, list(_dump_signals(events, ranks)), first, _kernel_zones(events))


def _inits(groups: Iterable[Group]) -> Iterator[Moment]:
    """The end of the init of each communicator that spans hosts, the largest ones."""
    widest = sorted(groups, key=lambda group: -group.size)[:_MOST_GROUPS]
    for group in widest:
        seen: Seen = defaultdict(list)
        for member in group.members:
            line, process = member.complete, member.process
            host = (line.host if line is not None else None) or process.host
            if line is not None and line.time is not None and host is not None:
                seen[host].append(line.time)
        yield from _moment(seen, _INIT_SLACK_S, f"the end of the init of {group.name}")


def _rendezvous(events: Sequence[Event]) -> Iterator[Moment]:
    """The n-th rendezvous of every agent, where all have the same number of them."""
    of_host: Seen = defaultdict(list)
    for event in events:
        if event.kind == "rendezvous_complete" and event.time is not None and event.host is not None:
            of_host[event.host].append(event.time)
    if len({len(times) for times in of_host.values()}) == 1:
        in_order = {host: sorted(times)[-_MOST_ROUNDS:] for host, times in of_host.items()}
        for times in zip(*in_order.values(), strict=True):
            seen = {host: [time] for host, time in zip(in_order, times, strict=True)}
            yield from _moment(seen, _RENDEZVOUS_SLACK_S, "the end of torchrun's rendezvous")


def _timeouts(events: Sequence[Event]) -> Iterator[Moment]:
    """When the waiting for one call began on each host: within the timeout that the first of them was given."""
    works: dict[tuple[object, ...], Seen] = defaultdict(lambda: defaultdict(list))
    limits_s: dict[tuple[object, ...], float] = {}
    for event in events:
        seq, ran_ms, limit_ms = event.number("seq"), event.number("ran_ms"), event.number("timeout_ms")
        if event.kind != "watchdog_timeout" or None in (seq, ran_ms, limit_ms, event.time, event.host):
            continue
        work: tuple[object, ...] = (
            event.fields.get("pg_guid"),
            event.fields.get("pg_desc"),
            seq,
            event.fields.get("op"),
        )
        works[work][str(event.host)].append((event.time or 0.0) - (ran_ms or 0) / 1000)
        limits_s[work] = max(limits_s.get(work, 0.0), (limit_ms or 0) / 1000)
    for work, seen in list(works.items())[:_MOST_WORKS]:
        yield from _moment(seen, limits_s[work] + _RAN_LONGER_S, f"the timeouts of call {work[2]}")


def _moment(seen: Mapping[str, Sequence[float]], slack_s: float, basis: str) -> Iterator[Moment]:
    """A moment of at least two hosts, unless the processes of one host are further apart than the slack."""
    if len(seen) > 1 and all(max(times) - min(times) <= slack_s for times in seen.values()):
        yield Moment({host: _median(times) for host, times in seen.items()}, slack_s, basis)


def _median(times: Sequence[float]) -> float:
    """As that of `statistics`, which takes longer to load than most jobs to align."""
    ordered = sorted(times)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _dump_signals(events: Sequence[Event], ranks: Mapping[int, Process]) -> Iterator[Bound]:
    """What one rank put into the store when its call timed out, and the others found there."""
    sent: dict[int, Event] = {}
    answered: set[int] = set()
    for event in events:
        if event.kind == "watchdog_dump_signal" and event.rank is not None and event.time is not None:
            sent.setdefault(event.rank, event)
    for event in events:
        number = event.number("signalling_rank") if event.kind == "watchdog_remote_dump_signal" else None
        sender = sent.get(number) if number is not None else None
        if sender is None or event.time is None or sender.time is None or sender.rank not in ranks:
            continue
        if event.host is None or sender.host is None or event.host == sender.host:
            continue
        if event.rank is None or event.rank in answered:
            continue
        answered.add(event.rank)
        ahead = event.time - sender.time
        basis = f"the dump signal of rank {sender.rank}"
        yield Bound(event.host, sender.host, ahead - _SIGNAL_AFTER_S, ahead + _SIGNAL_BEFORE_S, basis)


def _kernel_zones(events: Sequence[Event]) -> dict[str, float]:
    """Hosts whose kernel log has another zone than what their launchers and shells print."""
    killed: dict[int, dict[str, float]] = defaultdict(dict)
    for event in events:
        pid = event.number("killed_pid")
        if event.kind == "oom_killed" and pid is not None and event.time is not None and event.host is not None:
            killed[pid].setdefault(event.host, event.time)
    zones: dict[str, set[float]] = defaultdict(set)
    for event in events:
        pid = event.number("worker_pid") if event.kind == "worker_failed" else event.number("ended_pid")
        where = killed.get(pid, {}) if pid is not None else {}
        hosts = [host for host in where if event.host in (None, host)]
        if len(hosts) == 1 and event.time is not None:
            ahead = where[hosts[0]] - event.time
            zones[hosts[0]].add(zone_of(ahead - _DEATH_SLACK_S, ahead + _DEATH_SLACK_S))
    return {host: min(found) for host, found in sorted(zones.items()) if len(found) == 1 and min(found)}
