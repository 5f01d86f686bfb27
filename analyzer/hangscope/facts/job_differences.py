"""Compares two jobs: versions, settings, shape, network, channels and GPUs, aspect by aspect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hangscope.align.job import Job
from hangscope.expressions import expression
from hangscope.facts.comparisons import compare
from hangscope.facts.comparisons.init import TOPIC as INIT
from hangscope.facts.comparisons.messages import TOPIC as MESSAGES
from hangscope.facts.comparisons.settings import TOPIC as SETTINGS
from hangscope.facts.comparisons.versions import TOPIC as VERSIONS
from hangscope.facts.settings import MILESTONES
from hangscope.facts.topology import TOPIC as TOPOLOGY
from hangscope.facts.topology import shape_of
from hangscope.model import ComparedValue, Comparison
from hangscope.model.difference import Change, Difference

_NCCL = "NCCL_"
_OF_NO_USE = frozenset({INIT, MESSAGES})
"""Topics that tell how one run went; what two runs are is not in them."""
_INFERRED = expression(r".* (?:\(inferred\)|or newer|or older|to [\d.]+)")
# what every allocation, start and process has anew
_OF_THE_RUN = expression(
    r"(?:MASTER_(?:ADDR|PORT)|NCCL_COMM_ID|NCCL_DEBUG_FILE|HOSTNAME|HOST|PWD|OLDPWD|TMPDIR|SHLVL|_|SSH_\w+|XDG_\w+"
    r"|(?:LOCAL_|GROUP_|NODE_|ROLE_)?RANK|\w*_(?:RUN_?ID|JOB_?ID|JOBID|JOB_NAME|STEP_?ID|NODELIST|HOSTS|NODEID|PROCID"
    r"|LOCALID|TASK_PID|GTIDS|START_TIME|END_TIME|ERROR_FILE|RESTART_COUNT))"
)
_TOPICS = ("versions", "settings", "topology", "network", "channels", "GPUs")
# of jobs of other sizes nothing else can be expected
_FOLLOW_FROM_RANKS = frozenset({"groups", "rings", "trees"})
_TOLD_TWICE = ("GPUs", "ranks on the host")


def compare_jobs(good: Job, bad: Job) -> tuple[tuple[Difference, ...], tuple[tuple[str, str], ...]]:
    """What two jobs differ in, and the aspects (topic and name) in which they are equal.

    Names of hosts, addresses, process ids and whatever else is new with every start are not compared. Differences
    come in the order in which they deserve a look: what ranks of the bad job came to differ in, then what is another,
    versions and settings first.
    """
    known, found = _aspects(good), _aspects(bad)
    resized = good.world_size != bad.world_size
    differences: list[Difference] = []
    equal: list[tuple[str, str]] = []
    for key in [*known, *(key for key in found if key not in known)]:
        before, after = known.get(key), found.get(key)
        if _is_new_with_every_start(key) or (resized and key[0] == TOPOLOGY and key[1] in _FOLLOW_FROM_RANKS):
            continue
        change = _change(before, after)
        if change is not None:
            must_agree = any(one is not None and one.must_agree for one in (before, after))
            values = (before.values if before else (), after.values if after else ())
            silent = (bad, found) if after is None else (good, known) if before is None else None
            telling = silent is None or _would_say(*silent, key)
            differences.append(Difference(*key, change, must_agree, *values, telling))
        elif before is not None and after is not None and _texts(before.values) == _texts(after.values):
            equal.append(key)
    return tuple(sorted(differences, key=_place)), tuple(equal)


def _would_say(job: Job, said: Mapping[tuple[str, str], Comparison], key: tuple[str, str]) -> bool:
    """Whether silence about something means that it is not so.

    A setting is printed when it is set: by NCCL as soon as it comes to read it, by others among all their settings.
    Whether most else is printed depends on the level of the logs.
    """
    topic, name = key
    if topic != SETTINGS:
        return False
    if name.startswith(_NCCL) and job.events.has(*MILESTONES):
        return True
    return any(other == SETTINGS and not aspect.startswith(_NCCL) for other, aspect in said)


def _place(difference: Difference) -> tuple[bool, bool, bool, int]:
    topic = _TOPICS.index(difference.topic) if difference.topic in _TOPICS else len(_TOPICS)
    return (
        not difference.telling,
        difference.change is not Change.SPLIT,
        difference.change is Change.ELSEWHERE,
        topic,
    )


def _is_new_with_every_start(key: tuple[str, str]) -> bool:
    return key[0] == SETTINGS and _OF_THE_RUN.fullmatch(key[1]) is not None


def _aspects(job: Job) -> dict[tuple[str, str], Comparison]:
    found = {(one.topic, one.aspect): one for one in (*shape_of(job), *compare(job, fewest=1))}
    return {key: one for key, one in found.items() if one.topic not in _OF_NO_USE and key != _TOLD_TWICE}


def _change(good: Comparison | None, bad: Comparison | None) -> Change | None:
    """In which way they differ; None when they do not, or when nobody can tell."""
    if bad is None:
        return Change.ONLY_GOOD
    if good is None:
        return Change.SPLIT if bad.differs else Change.ONLY_BAD
    before, after = _texts(good.values), _texts(bad.values)
    if before != after:
        if good.topic == VERSIONS and any(map(_INFERRED.fullmatch, before | after)):
            return None  # they may well be the same
        return Change.SPLIT if len(after) > 1 and len(before) == 1 else Change.CHANGED
    one, other = _by_rank(good.values), _by_rank(bad.values)
    if one.keys() == other.keys() and one != other:
        return Change.ELSEWHERE
    return None


def _texts(values: Iterable[ComparedValue]) -> frozenset[str]:
    return frozenset(value.text for value in values)


def _by_rank(values: Sequence[ComparedValue]) -> Mapping[int, str]:
    return {rank: value.text for value in values for rank in value.ranks}
