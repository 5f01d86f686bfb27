"""The job, aligned: what facts, report and notebooks look at."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from hangscope.align.attached import what_was_refused
from hangscope.align.attempts import Attempt, find_attempts
from hangscope.align.backends import talks_over_gloo_alone
from hangscope.align.calls import CallTable
from hangscope.align.clock_pairs import find_clocks
from hangscope.align.clock_shift import correct_times
from hangscope.align.clocks import Clocks
from hangscope.align.clocks import describe as describe_clocks
from hangscope.align.collectives import StuckCall
from hangscope.align.copies import without_copies
from hangscope.align.groups import Communicator, Group, find_communicators, find_groups
from hangscope.align.grouptables import communicator_rows, membership_rows, process_rows
from hangscope.align.identity import Identity, identify
from hangscope.align.launch import Launch, find_launch
from hangscope.align.limits import limits
from hangscope.align.line_order import describe_order, out_of_order
from hangscope.align.process import Process
from hangscope.align.recorded_frame import RecordedRows
from hangscope.align.recorder_ranks import name_recordings
from hangscope.align.recordings import Recordings, align_recordings, describe_older
from hangscope.align.releases import PRODUCTS, infer_releases
from hangscope.align.several_jobs import Run, describe_runs, find_runs
from hangscope.align.stack_rows import StackRows
from hangscope.align.stacks import Stacks, place_stacks
from hangscope.align.stated_versions import STATING_KINDS, add_inferred, find_versions
from hangscope.align.versions import Inferred, Versions
from hangscope.align.waits import Waits, follow_waits
from hangscope.align.years import adopt_years
from hangscope.model import Event, SourceRecord
from hangscope.parse.columns import WriterKey
from hangscope.parse.recorder.recording import Recording
from hangscope.parse.source import ParsedSource
from hangscope.records import dataclass
from hangscope.sources.origin import hints
from hangscope.tables import Tables


class EventIndex:
    """Events by kind, in order of time, file and line."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.all: tuple[Event, ...] = tuple(events)
        self._by_kind: dict[str, list[Event]] = defaultdict(list)
        for event in self.all:
            self._by_kind[event.kind].append(event)

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds."""
        if len(kinds) == 1:
            return list(self._by_kind.get(kinds[0], ()))
        found = [event for kind in kinds for event in self._by_kind.get(kind, ())]
        return sorted(found, key=_order)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that there are."""
        return frozenset(self._by_kind)

    def has(self, *kinds: str) -> bool:
        """Whether any event is of one of these kinds."""
        return any(kind in self._by_kind for kind in kinds)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)


@dataclass(slots=True)
class Job:
    """Everything known about one job.

    Attributes:
        tables: the evidence as DataFrames.
        events: recognized lines with rank and host filled in where known.
        calls: the numbered collective calls of NCCL's COLL lines.
        processes: every process that could be told apart, ranked ones first.
        ranks: global rank -> process.
        duplicates: ranks that two processes claim.
        communicators, groups: NCCL's objects, and which of them are one.
        stacks, recordings: the stack dumps and the flight recorders' dumps, placed and lined up.
        stuck: calls that cannot complete, by NCCL's call lines and flight recorders (`facts.stuck` adds what watchdogs
            tell).
        waits: roots and cycles of waiting, of NCCL's call lines (`recordings.troubles` are those of the recorders).
        world_size, hosts, launcher, versions: of the job, as the evidence states them (versions also as inferred).
        releases: "torch", "nccl" -> what each process can be of, by its lines that state no version.
        launch: by what the job was started, and by which names its processes can be reached.
        recorded: `id` of a process -> its flight recorder's dumps.
        parsed: what was read (the last attempt).
        sources: the report's entries of all inputs, earlier attempts included.
        lost_tails: files whose last lines are known to be lost (block-buffered output).
        turned: files whose lines are not in order of time; their calls are compared with no others.
        runs: the jobs, or runs of one, that the inputs are of, when they are of several; else empty.
        warnings: what limits the analysis.
        clocks: how the hosts' clocks differ; the times of those that are off are corrected everywhere.
        earlier: what the attempts before the last one left.
    """

    tables: Tables
    events: EventIndex
    calls: CallTable
    processes: tuple[Process, ...]
    ranks: dict[int, Process]
    duplicates: dict[int, tuple[Process, ...]]
    communicators: tuple[Communicator, ...]
    groups: tuple[Group, ...]
    stacks: Stacks
    recordings: Recordings
    stuck: tuple[StuckCall, ...]
    waits: Waits
    world_size: int | None
    hosts: tuple[str, ...]
    launcher: str | None
    launch: Launch
    versions: Versions
    releases: dict[str, list[tuple[Process, Inferred]]]
    recorded: dict[int, list[Recording]]
    parsed: tuple[ParsedSource, ...]
    sources: tuple[SourceRecord, ...]
    lost_tails: frozenset[str]
    turned: frozenset[str]
    runs: tuple[Run, ...]
    warnings: tuple[str, ...]
    by_writer: dict[WriterKey, Process]

    def process_of(self, event: Event) -> Process:
        """The process that wrote the event's line."""
        return self._owner[id(event)]

    _owner: dict[int, Process]
    clocks: Clocks = dataclasses.field(default_factory=Clocks)
    earlier: tuple[Attempt, ...] = ()

    def hosts_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts of these ranks, as far as they are known."""
        return tuple(sorted({host for rank in ranks if rank in self.ranks and (host := self.ranks[rank].host)}))

    @property
    def without_nccl(self) -> bool:
        """Whether it talks over gloo alone, so that nothing about NCCL concerns it."""
        return talks_over_gloo_alone(self.events, self.stacks, self.recordings.backend)

    def silent_ranks(self) -> tuple[int, ...]:
        """Ranks of the world of which there is no line at all; empty when the world's size is not known."""
        if self.world_size is None:
            return ()
        return tuple(sorted(set(range(self.world_size)) - set(self.ranks)))


def align(sources: Sequence[ParsedSource], unreadable: Sequence[SourceRecord] = ()) -> Job:
    """Aligns what was read into one job.

    Args:
        sources: what each input became.
        unreadable: records of inputs that could not be opened at all.
    """
    originals, copies = without_copies(sources)
    attempts = find_attempts(originals)
    kept = attempts.last
    name_recordings(kept)
    adopt_years(kept)
    identity = identify(kept)
    job = _build_job(kept, identity)
    return dataclasses.replace(
        job,
        sources=tuple(sorted([*(s.record for s in sources), *unreadable], key=lambda record: record.file)),
        warnings=(
            *copies,
            *attempts.warnings,
            *what_was_refused(kept),
            *limits(sources, unreadable, identity, job.lost_tails),
            *identity.warnings,
            *job.warnings,
        ),
        earlier=attempts.earlier,
    )


def _build_job(sources: Sequence[ParsedSource], identity: Identity) -> Job:
    """The job of one attempt's sources, whose processes are known; its warnings are those about runs and time."""
    _fill_in(sources, identity)
    communicators = find_communicators(identity.processes)
    groups = find_groups(communicators, identity.world_size)
    clocks, events = _on_one_clock(sources, identity, groups)
    versions = find_versions(events.of(*STATING_KINDS), (one for source in sources for one in source.recordings))
    lost = frozenset(source.record.file for source in sources if source.block_buffered)
    turned = out_of_order(sources)
    runs = find_runs(groups, identity.by_writer, identity.world_size)
    calls, printed = _compare_calls(
        sources, identity, communicators, groups, versions=versions, lost_tails=lost, turned=turned
    )
    recordings = align_recordings(sources, identity)
    stacks = place_stacks(sources, identity)
    recorded = _recorded(sources, identity)
    releases = {product: infer_releases(product, identity.processes, stacks, recorded) for product in PRODUCTS}
    launch = find_launch(events, sources)
    return Job(
        tables=Tables(
            events.all,
            calls,
            communicators=communicator_rows(groups),
            memberships=membership_rows(groups),
            stacks=StackRows(stacks),
            processes=process_rows(identity.processes),
            recorded=RecordedRows([recording for source in sources for recording in source.recordings]),
        ),
        events=events,
        calls=calls,
        processes=identity.processes,
        ranks=identity.ranks,
        duplicates=identity.duplicates,
        communicators=tuple(communicators),
        groups=tuple(groups),
        stacks=stacks,
        recordings=recordings,
        stuck=(*printed, *recordings.stuck),
        waits=follow_waits(printed),
        world_size=identity.world_size,
        hosts=_hosts(identity),
        launcher=launch.launcher,
        launch=launch,
        versions=add_inferred(versions, releases),
        releases=releases,
        recorded=recorded,
        parsed=tuple(sources),
        sources=tuple(source.record for source in sources),
        lost_tails=lost,
        turned=turned,
        runs=runs,
        warnings=(*describe_runs(runs), *describe_older(recordings), *describe_order(turned), *describe_clocks(clocks)),
        by_writer=identity.by_writer,
        _owner=identity.by_event,
        clocks=clocks,
    )


def _on_one_clock(
    sources: Sequence[ParsedSource], identity: Identity, groups: Sequence[Group]
) -> tuple[Clocks, EventIndex]:
    """What is known of the hosts' clocks, and all events in order; times of clocks that are off are corrected."""
    events = EventIndex(_sorted_events(sources))
    clocks = find_clocks(events.all, groups, identity.ranks)
    if clocks.corrected or clocks.kernel_zones:
        correct_times(clocks, sources, identity.processes, identity.by_writer)
        events = EventIndex(sorted(events, key=_order))
    return clocks, events


def _recorded(sources: Iterable[ParsedSource], identity: Identity) -> dict[int, list[Recording]]:
    found: dict[int, list[Recording]] = defaultdict(list)
    for recording in (recording for source in sources for recording in source.recordings):
        if recording.rank is not None and (process := identity.ranks.get(recording.rank)) is not None:
            found[id(process)].append(recording)
    return found


def _compare_calls(
    sources: Sequence[ParsedSource],
    identity: Identity,
    communicators: list[Communicator],
    groups: list[Group],
    *,
    versions: Versions,
    lost_tails: frozenset[str],
    turned: frozenset[str],
) -> tuple[CallTable, list[StuckCall]]:
    """NCCL's call lines, numbered, and the calls at which ranks part; most jobs print none."""
    if not any(len(source.calls) for source in sources):
        return CallTable(identity.processes), []
    # numpy takes longer to import than much of an analysis without calls
    from hangscope.align.numbering import number_calls
    from hangscope.align.partings import find_stuck_calls

    mixed = isinstance(versions.nccl, tuple)
    calls = number_calls(sources, identity.by_writer, identity.processes, communicators, groups, mixed_versions=mixed)
    return calls, find_stuck_calls(calls, groups, lost_tails, turned)


def _fill_in(sources: Iterable[ParsedSource], identity: Identity) -> None:
    """Writes rank and host into the events, as far as their process or file tells them."""
    hosts = {source.record.file: hints(source.record.file).host for source in sources}
    for process in identity.processes:
        for event in process.events:
            line = event.line
            rank = event.rank = line.rank if line.rank_source == "rank-prefix" else process.rank
            host = process.host or hosts[line.file]
            if not host and rank is not None and (named := identity.ranks.get(rank)) is not None:
                # torch's prefix names a rank and no host: other lines of that rank may
                host = named.host
            event.process_host = host or None


def _hosts(identity: Identity) -> tuple[str, ...]:
    return tuple(sorted({process.host for process in identity.processes if process.host}))


def _sorted_events(sources: Sequence[ParsedSource]) -> list[Event]:
    """All events as `_order` sorts them. Most have no time and stand in order in their files, which are sorted."""
    by_file = {source.record.file: source for source in sources}
    if len(by_file) < len(sources):
        return sorted((event for source in sources for event in source.events), key=_order)
    timed: list[Event] = []
    untimed: list[Event] = []
    for _, source in sorted(by_file.items()):
        timed += [event for event in source.events if event.line.time is not None]
        untimed += sorted((event for event in source.events if event.line.time is None), key=_number)
    return [*sorted(timed, key=_order), *untimed]


def _number(event: Event) -> int:
    return event.line.number


def _order(event: Event) -> tuple[bool, float, str, int]:
    time = event.line.time
    return (time is None, time or 0.0, event.line.file, event.line.number)
