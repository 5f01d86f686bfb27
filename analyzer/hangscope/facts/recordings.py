"""Facts from flight-recorder dumps: the call at which the ranks part, its line of code, and who is to blame."""

from __future__ import annotations

from collections.abc import Iterator

from hangscope.align.job import Job
from hangscope.align.recorder_runs import APART_NS
from hangscope.align.recorder_trouble import Fault, Trouble
from hangscope.align.recordings import Recordings
from hangscope.facts import FactKind
from hangscope.model import Evidence, Fact, Location, Value
from hangscope.ranges import rank_words

_FIELDS = (
    "seq", "last_seq", "op", "called", "description", "where", "expected", "found", "last_seen", "last_where",
    "absence", "left", "arrived", "waiters", "missing", "doubt", "tie", "waiting", "groups", "backend", "on_gpu", "p2p",
    "in_group", "few",
)  # fmt: skip
KINDS = {
    "recorded_call_missing": FactKind(_FIELDS, "Ranks that wait in no call have not made one in which others wait."),
    "recorded_rank_left": FactKind(
        _FIELDS, "Ranks made whole steps and no call of the next one, in whose first call others wait."
    ),
    "recorded_call_skipped": FactKind(_FIELDS, "A rank left out a call of its group; its later calls are shifted."),
    "recorded_op_differs": FactKind(_FIELDS, "At one number of a group ranks recorded different operations."),
    "recorded_size_differs": FactKind(_FIELDS, "At one number of a group ranks recorded different sizes or types."),
    "recorded_cycle": FactKind(_FIELDS, "Ranks wait for each other in calls of two or more groups."),
    "recorded_p2p_unmatched": FactKind(_FIELDS, "A send or receive has no other half, and nobody can go on."),
    "recorded_dump_absent": FactKind(_FIELDS, "Ranks of which there is no dump are all that others wait for."),
    "recorded_all_joined": FactKind(_FIELDS, "All members stand in one call, which does not complete."),
    "recorder_off": FactKind(("dumps", "versions"), "The dumps hold no calls: the recorder kept none."),
    "recordings_nameless": FactKind(("dumps",), "Nothing says of any dump which rank wrote it."),
    "recordings_apart": FactKind(
        ("dumps", "older", "apart_s", "waiting"),
        "Some dumps are of an earlier run or moment than the others, which do not show what the job waits for.",
    ),
    "recordings_agree": FactKind(
        ("dumps", "calls", "waiting"), "All recorded calls completed, or may complete: no rank is waited for in vain."
    ),
}
_KIND_OF = {
    Fault.MISSING: "recorded_call_missing",
    Fault.LEFT_EARLY: "recorded_rank_left",
    Fault.SKIPPED: "recorded_call_skipped",
    Fault.OPERATION: "recorded_op_differs",
    Fault.SIZE: "recorded_size_differs",
    Fault.ORDER: "recorded_cycle",
    Fault.P2P: "recorded_p2p_unmatched",
    Fault.NO_DUMP: "recorded_dump_absent",
    Fault.ALL_JOINED: "recorded_all_joined",
}
_ON_CPU = frozenset({"gloo", "mpi", "ucc"})


def find(job: Job) -> Iterator[Fact]:
    """All facts of this module."""
    recordings = job.recordings
    if not recordings.ranks:
        yield from _nameless(job)
        return
    if recordings.off:
        yield _off(job)
        return
    for trouble in recordings.troubles:
        yield _fact(trouble, job)
    if not recordings.troubles:
        yield _apart(job) if recordings.older else _agreement(recordings)


def _fact(trouble: Trouble, job: Job) -> Fact:
    call = trouble.call
    about = f"{call.group} ({call.description})" if call.description else call.group
    p2p = trouble.fault is Fault.P2P or call.op in ("send", "recv", "coalesced")
    waiters = set(call.arrived) - set(trouble.ranks)
    fields: dict[str, Value] = {
        "doubt": f"Which of the equal calls {call.seq} to {trouble.last_seq} was left out cannot be told."
        if trouble.last_seq > call.seq
        else None,
        "seq": call.seq,
        "last_seq": trouble.last_seq,
        "op": call.op,
        # point-to-point calls have numbers of one process only
        "called": call.op if p2p else f"{call.op} {call.seq}",
        "description": call.description,
        "where": call.where,
        "expected": call.expected,
        "found": trouble.last_seen or call.found,
        "last_seen": trouble.last_seen,
        "last_where": trouble.last_where,
        "arrived": call.arrived,
        "waiters": rank_words(waiters) if waiters else None,
        "missing": call.missing,
        "absence": _absence(trouble, job),
        "left": "no new dump" if trouble.ranks and set(trouble.ranks) <= job.recordings.older.keys() else "no dump",
        "tie": call.tie,
        "waiting": trouble.waits,
        "groups": trouble.groups,
        "backend": job.recordings.backend,
        "on_gpu": job.recordings.backend not in _ON_CPU,
        "p2p": p2p,
        "in_group": about,
        # most of a group elsewhere: one who is ahead, be it by a moment, looks like that
        "few": 0 < len(call.arrived) < len(trouble.ranks),
    }
    # whoever stands in a call of another group waits for this one, by way of others
    affected = tuple(sorted({*call.arrived, *call.missing, *job.recordings.pending} - set(trouble.ranks)))
    return Fact(
        _KIND_OF[trouble.fault],
        fields,
        ranks=trouble.ranks,
        hosts=job.hosts_of(trouble.ranks),
        group=about,
        affected=affected,
        evidence=call.evidence,
    )


def _absence(trouble: Trouble, job: Job) -> str | None:
    """What is known of the dumps of ranks without one of this moment."""
    old = set(trouble.ranks) & job.recordings.older.keys()
    none = set(trouble.ranks) - old
    parts = [f"there is no flight-recorder dump of {rank_words(none)}"] if none else []
    if old:
        parts.append(f"the flight-recorder dump of {rank_words(old)} is of an earlier run or moment")
    return "; ".join(parts) or None


def _apart(job: Job) -> Fact:
    recordings = job.recordings
    tracks, older = recordings.tracks or {}, recordings.older
    last = [
        (track, at, f"the last call of rank {track.rank}, {when}")
        for some, when in ((older, "in an older dump"), (tracks, "in a dump of the last moment"))
        for track in list(some.values())[:2]
        if (at := track.last_call) is not None
    ]
    fields: dict[str, Value] = {
        "dumps": len(tracks),
        "older": rank_words(older),
        "apart_s": recordings.apart_ns / 1e9 if recordings.apart_ns > APART_NS else None,
        "waiting": len(recordings.pending),
    }
    evidence = tuple(track.evidence(at, why) for track, at, why in last)
    return Fact("recordings_apart", fields, affected=recordings.pending, evidence=evidence)


def _nameless(job: Job) -> Iterator[Fact]:
    files = [source.record.file for source in job.parsed if source.recordings]
    if files:
        said = "a flight recorder's dump; neither its name nor its groups tell the rank"
        evidence = tuple(Evidence(Location(file, None), said, "whose it is, nothing tells") for file in files[:4])
        yield Fact("recordings_nameless", {"dumps": len(files)}, evidence=evidence)


def _off(job: Job) -> Fact:
    files = [(source.record.file, r) for source in job.parsed for r in source.recordings]
    versions = sorted({r.version for _, r in files})
    evidence = tuple(
        Evidence(
            Location(file, None), f"a dump of format {r.version[0]}.{r.version[1]} without entries", "no calls in it"
        )
        for file, r in files[:4]
    )
    shown = tuple(f"{major}.{minor}" for major, minor in versions)
    return Fact("recorder_off", {"dumps": len(files), "versions": shown}, evidence=evidence)


def _agreement(recordings: Recordings) -> Fact:
    tracks = recordings.tracks or {}
    last = [(track, track.last_call) for track in tracks.values()]
    evidence = tuple(
        track.evidence(at, f"the last call of rank {track.rank}") for track, at in last[:4] if at is not None
    )
    fields: dict[str, Value] = {
        "dumps": len(recordings.ranks),
        "calls": sum(len(track.recording) for track in tracks.values()),
        "waiting": len(recordings.pending),
    }
    return Fact("recordings_agree", fields, affected=recordings.pending, evidence=evidence)
