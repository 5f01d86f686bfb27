"""Tells exceptions that say why a rank failed from those that only echo somebody else's failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hangscope.align.job import Job
from hangscope.align.process import Process
from hangscope.expressions import expression
from hangscope.facts import FactKind
from hangscope.facts.collect import evidence_of
from hangscope.facts.deaths import find_deaths
from hangscope.facts.first_exception import Raised, find_later
from hangscope.facts.who import RankFinder
from hangscope.model import Event, Fact, Value
from hangscope.parse.advice import before_advice
from hangscope.records import dataclass

KINDS = {
    "raised": FactKind(
        ("type", "message", "where", "function", "category", "uncaught", "order", "later"),
        "An exception that is no echo of another rank's failure: `category` says what it is about (ordinary, gpu, "
        "memory, resource, launch, collective), `order` counts them in time, 0 first; `later` = unlike the one that "
        "came first for sure.",
    ),
    "raised_consequence": FactKind(
        ("type", "message", "where", "function"),
        "An exception out of a collective, the store or the rendezvous that tells of another rank's failure.",
    ),
    "interrupted": FactKind(
        ("type", "message", "where"), "A process ended by KeyboardInterrupt or by its launcher's SignalException."
    ),
}

# The last part of the type's name. Wrappers carry another exception or an exit status and say nothing themselves.
_WRAPPERS = expression(
    r"^(?:ChildFailedError|ProcessRaisedException|ProcessExitedException|RayTaskError|_RemoteTraceback|SystemExit|"
    r"CalledProcessError|InstantiationException|TrainingFailedError|WorkerGroupError|(?:Base)?ExceptionGroup|BdbQuit)"
)
_INTERRUPTS = expression(
    r"^(?:KeyboardInterrupt|SignalException|CancelledError|GeneratorExit|SigTermReceivedException)$"
)
_CONSEQUENCES = expression(
    r"^(?:Dist(?:Backend|Network|Store|)Error|Rendezvous\w+|BrokenPipeError|Connection\w*Error|EOFError|EngineDeadError|"
    r"EngineGenerateError|ActorDiedError|RayActorError|ActorUnavailableError|WorkerCrashedError|NodeDiedError|"
    r"HorovodInternalError|QueueEmptyError|Empty|WorkerGroupFailureException|GetTimeoutError|"
    r"(?:Unavailable|Aborted|DeadlineExceeded|Cancelled)Error|IncompleteReadError|BrokenProcessPool|RemoteError|RpcError|_InactiveRpcError)$"
)
# gloo (pair.cc, unbound_buffer.cc), TCPStore (1.8 to 2.14), NCCL as torch wraps it, JAX's coordination service.
_CONSEQUENCE_TEXTS = expression(
    r"^cancelled$|Connection (?:closed by|reset by|was closed)|Broken pipe|Socket (?:Timeout|closed)|"
    r"(?:Read|Write) (?:error|timeout) \[|timed out connecting: |"
    r"Timed out (?:waiting|initializing)|wait timeout after|timed out in (?:call to wait|blocking wait)|"
    r"NCCL (?:error|Error|communicator was aborted)|nccl(?:Remote|System|Internal|UnhandledCuda)Error|"
    r"unhandled (?:cuda|system) error|(?:NPU|OPS|HCCL) function error: (?:Hccl|[Aa]clrtSynchronize)|"
    r"HCCL error in: |ACL (?:stream|event|device) synchronize failed|"
    r"Horovod detected that one or more processes exited|Horovod has been shut down|"
    r"[Ss]ee (?:the )?(?:root cause|stack trace|error messages?|logs?)(?: \S+){0,3}? (?:above|for (?:the )?root cause)|"
    r"in a background process|Exception occurred in a worker process|The actor died because of|"
    r"Collective ops is aborted by|timed out in monitoredBarrier|[Pp]rocess group (?:got|was) aborted|"
    r"NCCL operation nccl\w+(?:\(\))? failed|oneCCL: .*EXCEPTION|Get timed out: some object|"
    r"remote process exited|connectFullMesh|Connect(?:ion)? timeout|client socket has|Stop_waiting response|"
    r"collective operation timeout|Watchdog caught|failed to pass monitoredBarrier|reached monitoredBarrier|"
    r"Application timeout caused pair closure|Collective operation (?:failed|timed out)|EngineCore|"
    r"(?:[Ww]orker|[Pp]rocess|peer|actor)\S*(?: \S+){0,2} (?:died|is dead|exited) unexpectedly|"
    # gloo's message begins with the place in its source; the log may end within it
    r"^\[(?:\.\.)?/[^\]]*$|"
    r"DEADLINE_EXCEEDED|UNAVAILABLE:|ABORTED:|[Ww]ait(?:ing)? (?:for|on) .*(?:timed out|timeout)|heartbeat"
)
_LAUNCH_TEXTS = expression(
    r"environment variable \w+ expected|Error initializing torch\.distributed|invalid device ordinal|"
    r"[Aa]ddress already in use|EADDRINUSE|failed to (?:listen|bind)|host not found|Name or service not known|"
    r"name resolution|Unable to (?:find address for|resolve)|process group has not been initialized|"
    r"unrecognized arguments|[Ww]orld ?_?size(?!=\d+, (?:worker_count|num_workers))|nproc|"
    r"MASTER_(?:ADDR|PORT)|LOCAL_RANK|not reachable via ssh|No rendezvous handler|Duplicate GPU"
)
_COLLECTIVE_TEXTS = expression(
    r"Detected mismatch between collectives|Expected to have finished reduction|DDP expects same model across|"
    r"appears not to match (?:sizes|strides)|is not part of group|disagreement between rank|collective mismatch|"
    r"not (?:the )?(?:same|equal) (?:on|across) all ranks|Received data size doesn't match|[Mm]ismatched collective"
)
_GPU_TEXTS = expression(
    r"CUDA (?:error|out of memory|driver error|failure)|out of memory\. Tried to allocate|cudaError|CUBLAS_STATUS|"
    r"cuDNN error|CUDNN_STATUS|ECC error|no kernel image|Triton Error \[CUDA\]|HIP (?:error|out of memory)|NVML|"
    r"hipError|HSA_STATUS|"
    r"CUFFT_|CUSOLVER_|CUSPARSE_|RESOURCE_EXHAUSTED|nvrtc"
)
_MEMORY_TEXTS = expression(
    r"DefaultCPUAllocator|Cannot allocate memory|Unable to allocate .* for an array|std::bad_alloc"
)
_RESOURCE_TEXTS = expression(
    r"Too many open files|items of ancdata|No space left on device|Disk quota exceeded|shared memory|iostream error|"
    r"unexpected pos|PytorchStreamWriter failed|torch_shm|unable to (?:mmap|open shared|resize file|write to file)|"
    r"can't start new thread|Resource temporarily unavailable|Stale file handle|Input/output error|"
    r"Read-only file system|DataLoader (?:worker|process) \(pid|DataLoader timed out|Pin memory thread"
)
_QUOTED = expression(r"^Caught \S+ in (?:DataLoader worker process|replica|pin memory)")
# torch's own tools that read dumps; they run beside the job (2.10 on: the debug server's frontend).
_TOOLS = expression(r"flight_recorder|torchfrtrace|[/\\]debug[/\\]_|wandb|tensorboard|mlflow")


@dataclass(frozen=True, slots=True)
class Chain:
    """Exceptions that follow from each other; the last one is what the process said in the end."""

    events: tuple[Event, ...]
    category: str

    @property
    def last(self) -> Event:
        return self.events[-1]


def find(job: Job) -> Iterator[Fact]:
    """What processes raised, sorted into reasons, echoes and interrupts."""
    speakers = _Speakers(job)
    roots = []
    for process in job.processes:
        for chain in find_chains(process):
            if chain.category == "consequence":
                yield speakers.fact("raised_consequence", chain, {})
            elif chain.category == "interrupt":
                yield speakers.fact("interrupted", chain, {})
            elif chain.category not in ("wrapper", "tool"):
                roots.append((process, chain))
    roots.sort(key=lambda item: _moment(item[1]))
    speakers.settle([chain for _, chain in roots])
    later = speakers.find_later([chain for _, chain in roots])
    for order, (process, chain) in enumerate(roots):
        fields: dict[str, Value] = {
            "category": chain.category,
            "uncaught": bool(speakers.failures) or _is_uncaught(process, chain),
            "order": order,
            "later": order in later,
        }
        yield speakers.fact("raised", chain, fields)


def find_chains(process: Process) -> list[Chain]:
    """The exceptions of one process, chained ones together."""
    chains: list[list[Event]] = []
    for event in process.events:
        if event.kind != "exception":
            continue
        if chains and event.fields.get("relation") and chains[-1][-1].fields.get("superseded"):
            chains[-1].append(event)
        else:
            chains.append([event])
    return [Chain(tuple(events), _chain_category(events)) for events in chains]


def _chain_category(events: Sequence[Event]) -> str:
    """What a chain is about: its first exception that is more than ordinary decides, for later ones follow from it."""
    categories = [category_of(event) for event in events]
    for category in categories:
        if category not in ("ordinary", "wrapper", "quoting"):
            return category
    if "ordinary" in categories or "quoting" in categories:
        return "ordinary"
    return "wrapper"


def category_of(event: Event) -> str:
    """What one exception is about."""
    name = str(event.fields.get("type", "")).rpartition(".")[2]
    message = before_advice(str(event.fields.get("message", "")))
    frames = event.fields.get("frames") or ()
    if event.fields.get("relation") == "ignored":
        return "tool"
    if isinstance(frames, tuple) and frames and _TOOLS.search(str(frames[-1])):
        return "tool"
    if _WRAPPERS.match(name):
        return "wrapper"
    if _INTERRUPTS.match(name):
        return "interrupt"
    for category, texts in (
        ("launch", _LAUNCH_TEXTS),
        ("collective", _COLLECTIVE_TEXTS),
        ("gpu", _GPU_TEXTS),
        ("memory", _MEMORY_TEXTS),
        ("resource", _RESOURCE_TEXTS),
    ):
        if texts.search(message) and not (category == "gpu" and "NCCL" in message):
            return category
    if name == "OutOfMemoryError":
        return "gpu"
    if name in ("MemoryError", "_ArrayMemoryError"):
        return "memory"
    if name == "TimeoutError" and not message.strip():
        return "consequence"
    if _CONSEQUENCES.match(name) or _CONSEQUENCE_TEXTS.search(message):
        return "consequence"
    if isinstance(frames, tuple) and frames and "multiprocessing/synchronize.py" in str(frames[-1]):
        return "resource"
    return "quoting" if _QUOTED.match(message) else "ordinary"


def where_of(event: Event) -> str:
    """`file:line function` of the innermost frame of the job's own code, else of the innermost frame, else ""."""
    fields = event.fields
    if fields.get("where_file"):
        return f"{fields['where_file']}:{fields['where_line']} {fields.get('where_function') or ''}".rstrip()
    frames = fields.get("frames")
    return str(frames[-1]) if isinstance(frames, tuple) and frames else ""


class _Speakers:
    """Tells the rank and host of each chain, and makes facts of them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._who = RankFinder(job)
        self._lone: int | None = None
        deaths = find_deaths(job)
        self._hosts = {death.rank: death.host for death in deaths if death.rank is not None and death.host}
        self.failures = [death for death in deaths if not death.victim and death.exitcode == 1]
        self._first_ranks = {death.rank for death in deaths if death.first and death.rank is not None}

    def settle(self, roots: Sequence[Chain]) -> None:
        """Finds the rank of the one chain without a rank (torch to 2.1 prints none) by the failure with code 1."""
        ranks = [self._rank(chain) for chain in roots]
        if ranks.count(None) != 1:
            return
        candidates = [death for death in self.failures if death.rank is not None and death.rank not in ranks]
        if len(candidates) > 1:
            # its peers end only after it
            candidates = [death for death in candidates if death.first]
        self._lone = candidates[0].rank if len(candidates) == 1 else None

    def find_later(self, roots: Sequence[Chain]) -> frozenset[int]:
        """Positions of the chains that are unlike the one that came first, where something tells which did."""
        raised = []
        for chain in roots:
            event = chain.last
            rank = self._rank(chain)
            what = (str(event.fields.get("type", "")).rpartition(".")[2], where_of(event))
            raised.append(Raised(what, rank, event.host or self._hosts.get(-1 if rank is None else rank), _time(chain)))
        return find_later(raised, self._first_ranks, self._job.clocks if len(self._job.hosts) > 1 else None)

    def _rank(self, chain: Chain) -> int | None:
        rank = self._who.rank_of(chain.last)
        return _rank_of_child(self._job, chain) if rank is None else rank

    def fact(self, kind: str, chain: Chain, fields: dict[str, Value]) -> Fact:
        """The fact of that kind, with who, where and when."""
        event = chain.last
        rank = self._rank(chain)
        if rank is None and kind == "raised":
            rank = self._lone
        host = event.host or (self._hosts.get(rank) if rank is not None else None)
        said = {
            "type": event.fields.get("type"),
            "message": str(event.fields.get("message", "")).partition("\n")[0][:400],
            "where": where_of(event),
            "function": event.fields.get("in_function"),
        }
        evidence = [evidence_of(event, "the exception")]
        evidence += [evidence_of(earlier, "raised before it") for earlier in reversed(chain.events[:-1])]
        return Fact(
            kind=kind,
            fields=said | fields,
            ranks=() if rank is None else (rank,),
            hosts=() if host is None else (host,),
            time=_time(chain),
            evidence=tuple(evidence),
        )


def _rank_of_child(job: Job, chain: Chain) -> int | None:
    """The index of the child that multiprocessing.spawn quotes: its rank when the job has one host."""
    if len(chain.events) < 2 or chain.last.fields.get("relation") != "original" or len(job.hosts) > 1:
        return None
    first, last = chain.events[0].line, chain.last.line
    for event in job.events.of("spawn_exception"):
        if event.line.file == first.file and first.number < event.line.number < last.number:
            index = event.fields.get("spawn_index")
            return index if isinstance(index, int) else None
    return None


def _time(chain: Chain) -> float | None:
    return next((event.time for event in chain.events if event.time is not None), None)


def _moment(chain: Chain) -> tuple[float, str, int]:
    """For order: by time where lines carry one, else by place."""
    return (_time(chain) or 0.0, chain.last.line.file, chain.events[0].line.number)


def _is_uncaught(process: Process, chain: Chain) -> bool:
    """Whether the exception ended the process: torch's hook printed it (2.2 on), or nearly nothing follows it."""
    line = chain.last.line
    if line.rank_source == "rank-prefix":
        return True
    last = process.last_line
    if last is None or last.file != line.file:
        return False
    return last.number - line.number <= 12
