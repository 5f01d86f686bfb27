"""Looks at a running job twice, some seconds apart, and writes what it saw into a bundle."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from hangscope.errors import InputError
from hangscope.live import procfs, pyspy, ras, recorder, records, refusal, sockets, tails
from hangscope.live.bundle import HostBundle, check_folder, default_folder, host_name, make_folder
from hangscope.live.processes import HELPER
from hangscope.live.targets import LiveJob, Target
from hangscope.records import dataclass

_MAX_CHILDREN = 64
"""Stacks of so many children of a rank: more tell nothing new."""

_RULE = "-" * 80

Say = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to look.

    Attributes:
        interval_s: seconds between the two looks.
        native: also C and C++ frames.
        nonblocking: never pause a process.
        recorder: ask torch for its flight recorder where the job has a pipe for that.
    """

    interval_s: float = 5.0
    native: bool = False
    nonblocking: bool = False
    recorder: bool = True


@dataclass(frozen=True, slots=True)
class Captured:
    """What was collected.

    Attributes:
        folder: the bundle.
        jobs: the name of each job, and the folder to analyze for it (`folder` itself when there is one job).
    """

    folder: Path
    jobs: tuple[tuple[str, Path], ...]


def check_options(options: Options, output: Path | None = None, *, archive: bool = False) -> str:
    """Finds out before the work whether it can be done; returns the program that takes stacks.

    Raises:
        InputError: py-spy is missing, options exclude each other, or the folder is not empty.
    """
    if options.native and options.nonblocking:
        raise InputError(
            "native frames can only be read while the process is paused", "Leave out either --native or --nonblocking."
        )
    if output is not None:
        check_folder(output, archive=archive)
    return pyspy.find_pyspy()


def capture(
    jobs: Sequence[LiveJob], output: Path | None = None, options: Options | None = None, say: Say | None = None
) -> Captured:
    """Looks at these jobs and writes a bundle.

    Raises:
        InputError: py-spy is missing, or the folder is not empty or cannot be written.
    """
    options = options or Options()
    program = check_options(options, output)
    folder = make_folder(output or default_folder())
    done = []
    for number, job in enumerate(jobs, 1):
        inner = folder if len(jobs) == 1 else folder / f"job{number}-{tails.safe_name(job.name)}"
        _Capture(job, HostBundle(inner / host_name()), program, options, say or say_nothing).run()
        done.append((job.name, inner))
    return Captured(folder, tuple(done))


def say_nothing(what: str, done: int, total: int) -> None:
    """Shows no progress."""


class _Capture:
    """Two looks at one job."""

    def __init__(self, job: LiveJob, bundle: HostBundle, program: str, options: Options, say: Say) -> None:
        self._job = job
        self._bundle = bundle
        self._program = program
        self._options = options
        self._say = say
        self._lines: list[str] = []
        self._trouble: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._ras_told = False

    def run(self) -> None:
        started = time.time()
        self._lines += records.describe_job(self._job, host_name(), started)
        self._lines += records.describe_host(self._job.targets)
        try:
            with ThreadPoolExecutor(max_workers=min(16, 2 * (os.cpu_count() or 1))) as pool:
                self._look(1, pool)
                # only now, since the pause for its stack makes a process run a little
                begin, before = time.monotonic(), records.read_paces(self._job.targets)
                self._wait(begin)
                now = records.read_paces(self._job.targets)
                self._lines += records.describe_progress(before, now, time.monotonic() - begin)
                self._look(2, pool)
            self._fetch_recordings()
            self._copy_logs()
        finally:
            # whatever ends it early: what is there is told what it is
            self._lines += self._troubles()
            self._bundle.write("attach.txt", "\n".join(self._lines))

    # --- one look ---------------------------------------------------------------------------------------

    def _look(self, number: int, pool: ThreadPoolExecutor) -> None:
        """Everything that changes. The cheap readings come first, so that our own load is not in them."""
        targets = self._job.targets
        self._bundle.write(f"ps.{number}.txt", records.process_table(targets))
        self._lines += records.describe_use(targets, number)
        for target in self._job.ranks:
            lines = list(records.describe_threads(target))
            if lines:
                self._bundle.write(f"proc/{_name(target)}.{number}.txt", "\n".join(lines))
        found = sockets.sockets_of({target.pid: _process_name(target.pid) for target in targets})
        if found:
            self._bundle.write(f"sockets.{number}.txt", sockets.format_sockets(found))
        if number == 1:
            self._write_environments()
        address = self._ras_address(found)
        asked = pool.submit(ras.ask, address) if address is not None else None
        self._dump(number, pool)
        if asked is not None and address is not None:
            self._keep_answers(number, asked.result(), address)

    def _ras_address(self, found: Sequence[sockets.Socket]) -> tuple[str, int] | None:
        """Where to ask; nowhere when our own network is another one, in which the port may be anybody's."""
        ranks = self._job.ranks
        address = ras.address_of(self._job.targets, found)
        if address is None or any(ras.is_off(target.environment) for target in ranks):
            return None
        if all(sockets.same_network(target.pid) for target in ranks if procfs.is_alive(target.pid)):
            return address
        reason = "it has a network of its own; run hangscope inside of its container for that"
        self._trouble[reason, "RAS report of "].append("the job")
        return None

    def _write_environments(self) -> None:
        for target in self._job.ranks:
            lines = list(records.describe_environment(target))
            if lines:
                self._bundle.write(f"proc/{_name(target)}.env.txt", "\n".join(lines))

    def _dump(self, number: int, pool: ThreadPoolExecutor) -> None:
        wanted = [target for family in self._families() for target in family]
        jobs: dict[int, Future[pyspy.Dump]] = {
            target.pid: pool.submit(
                pyspy.take_dump,
                self._program,
                target.pid,
                native=self._options.native,
                nonblocking=self._options.nonblocking,
            )
            for target in wanted
        }
        dumps: dict[int, pyspy.Dump] = {}
        for count, (pid, job) in enumerate(jobs.items(), 1):
            dumps[pid] = job.result()
            self._say(f"stacks, {'first' if number == 1 else 'second'} look", count, len(jobs))
        for family in self._families():
            text = "".join(self._stack_text(family, dumps))
            if text:
                self._bundle.write(f"stacks/{_name(family[0])}.{number}.txt", text)
        for target in wanted:
            self._note_dump(target, dumps[target.pid], number)

    def _families(self) -> Iterator[list[Target]]:
        """Each launcher, and each rank with its children that run Python."""
        families: dict[int, list[Target]] = {}
        for target in self._job.targets:
            if target.role != "child":
                families[target.pid] = [target]
            elif target.python and not HELPER.search(target.command):
                family = families.setdefault(target.owner, [])
                if len(family) <= _MAX_CHILDREN:
                    family.append(target)
        yield from (family for family in families.values() if family)

    def _stack_text(self, family: Sequence[Target], dumps: dict[int, pyspy.Dump]) -> Iterator[str]:
        """A process and its children as ``py-spy dump --subprocesses`` prints them: one rank's stacks stay together."""
        first, *children = family
        dump = dumps[first.pid]
        if dump.text:
            yield dump.text
        elif procfs.is_alive(first.pid):
            # an error tells no pid
            yield f"== pid {first.pid} ==\n{dump.error}\n"
        for child in children:
            text = dumps[child.pid].text
            if text:
                yield f"\n{_RULE}\n{_with_parent(text, child.parent, self._command_of(child.parent))}"

    def _command_of(self, pid: int) -> str:
        return next((target.command for target in self._job.targets if target.pid == pid), "")

    def _note_dump(self, target: Target, dump: pyspy.Dump, number: int) -> None:
        if dump.why_not and number == 1:
            self._lines.append(f"{records.MARK} unpaused pid={target.pid} because {dump.why_not}")
        if not dump.error:
            return
        if not procfs.is_alive(target.pid):
            if target.role == "child":
                return
            self._trouble["it ended while it was looked at", ""].append(target.label)
        elif refusal.is_refusal(dump.error):
            self._trouble[refusal.explain_refusal(target.pid), "stacks of "].append(target.label)
        elif target.role == "rank" or not dump.why_not:
            self._trouble[_last_line(dump.error), "stacks of "].append(target.label)

    def _troubles(self) -> Iterator[str]:
        for (reason, what), labels in self._trouble.items():
            names = list(dict.fromkeys(labels))
            more = f" and {len(names) - 4} more" if len(names) > 4 else ""
            yield records.describe_trouble(f"{what}{', '.join(names[:4])}{more}", reason)

    def _keep_answers(self, number: int, answers: Sequence[ras.Answer], address: tuple[str, int]) -> None:
        for answer in answers:
            self._bundle.write(f"ras/ras.{number}.{answer.form}", answer.data)
        if not answers:
            self._trouble[f"nothing answered as NCCL does on {address[0]}:{address[1]}", "RAS report of "].append(
                "the job"
            )

    # --- between and after ------------------------------------------------------------------------------

    def _wait(self, begin: float) -> None:
        whole = self._options.interval_s
        while (left := begin + whole - time.monotonic()) > 0:
            self._say("waiting for the second look", int(whole - left), max(1, int(whole)))
            time.sleep(min(left, 0.5))

    def _fetch_recordings(self) -> None:
        """Last, so that the work of dumping is in none of our own readings."""
        ranks = self._job.ranks
        if self._options.recorder and any(recorder.pipe_of(target) for target in ranks):
            self._say("flight recorder", 0, 1)
            since = time.time()
            asked = recorder.trigger(ranks)
            recorder.wait_for_dumps(asked, since)
            self._say("flight recorder", 1, 1)
        for found in recorder.find_recordings(ranks):
            data = recorder.read_recording(found)
            if data is None:
                self._trouble["its file cannot be read", "flight recorder of "].append(found.target.label)
            else:
                self._bundle.write(f"recorder/{_recording_name(found)}", data)

    def _copy_logs(self) -> None:
        for tail in tails.find_tails(self._job.targets):
            if tail.cut:
                self._lines.append(f"{records.MARK} tail file=logs/{tail.name} is the end of a longer file")
            self._bundle.write(f"logs/{tail.name}", tail.data.decode("utf-8", "replace"))


def _name(target: Target) -> str:
    if target.role == "launcher":
        return f"launcher-pid{target.pid}"
    return f"rank{target.rank}-pid{target.pid}" if target.rank is not None else f"pid{target.pid}"


def _recording_name(found: recorder.Recording) -> str:
    """The file's own name ends in the rank, unless the job fixed the name."""
    rank = found.target.rank
    name = tails.safe_name(found.name)
    return name if rank is None or name.endswith(f"_{rank}") else f"{name}_rank_{rank}"


def _process_name(pid: int) -> str:
    one = procfs.read_stat(pid)
    return one.name if one is not None else ""


def _with_parent(text: str, parent: int, command: str) -> str:
    """A dump with the line that py-spy adds for a child under --subprocesses."""
    head, blank, stacks = text.partition("\n\n")
    return f"{head}\nParent Process {parent}: {command}{blank}{stacks}" if blank else text


def _last_line(error: str) -> str:
    """The deepest reason that py-spy gives."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return f"{lines[0]} ({lines[-1]})" if len(lines) > 1 else "".join(lines)
