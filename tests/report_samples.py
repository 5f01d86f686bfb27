"""Hand-made reports that the format tests render: each one a night that somebody had."""

from __future__ import annotations

from dataclasses import replace

from hangscope.model import (
    CallHistory,
    CallState,
    CollectiveState,
    ComparedValue,
    Comparison,
    Consequence,
    Evidence,
    Finding,
    GroupCounts,
    GroupHistory,
    History,
    JobInfo,
    Location,
    NextStep,
    RankState,
    Remedy,
    Report,
    Role,
    SourceRecord,
    StackNode,
    StackState,
    StoryStep,
    Transfer,
)

_NOON = 1777636800.0  # 2026-05-01T12:00:00


def _line(file: str, number: int | None, text: str, why: str) -> Evidence:
    return Evidence(Location(file, number), text, why)


def out_of_memory() -> Report:
    """Eight ranks on two hosts; rank 5 runs out of GPU memory, the others wait for it."""
    oom = _line(
        "logs/rank5.log",
        1841,
        "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 1 has a total capacity"
        " of 79.15 GiB of which 1.61 GiB is free. Including non-PyTorch memory, this process has 77.53 GiB memory in"
        " use. Of the allocated memory 71.20 GiB is allocated by PyTorch, and 4.87 GiB is reserved by PyTorch but"
        " unallocated.",
        "rank 5's own last words",
    )
    oom = replace(
        oom,
        before=(
            '[rank5]:   File "/opt/conda/lib/python3.11/site-packages/torch/optim/adamw.py", line 472, in step',
            "[rank5]:     exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)",
        ),
        after=("[rank5]: node02:4117:4117 [1] NCCL INFO comm 0x55d0 rank 5 nranks 8 - Abort COMPLETE",),
    )
    watchdog = _line(
        "logs/rank0.log",
        2210,
        "[rank0]:[E501 12:13:09.482913 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation"
        " timeout: WorkNCCL(SeqNum=1842, OpType=ALLREDUCE, NumelIn=26214400, NumelOut=26214400, Timeout(ms)=600000)"
        " ran for 600081 milliseconds before timing out.",
        "rank 0 waited its whole timeout in the call that rank 5 never made",
    )
    store = _line(
        "logs/rank3.log",
        2180,
        "[rank3]:[W501 12:13:11.102394 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=82,"
        " addr=[::ffff:10.0.0.12]:41938): Connection reset by peer",
        "the store went away with rank 0",
    )
    verdict = Finding(
        cause="gpu-out-of-memory",
        role=Role.CAUSE,
        title="Rank 5 on node02 ran out of GPU memory",
        ranks=(5,),
        affected_ranks=(0, 1, 2, 3, 4, 6, 7),
        hosts=("node02",),
        confidence=0.93,
        explanation=(
            "Rank 5 asked for 4.00 GiB on GPU 1 of node02 while 1.61 GiB of 79.15 GiB was free, and died of the"
            " exception. The 7 other ranks entered all_reduce 1842 of the default group and wait for it; their"
            " watchdogs stopped them 10 minutes later."
        ),
        remedies=(
            Remedy("Make the micro batch or the sequence length smaller, and run again."),
            Remedy(
                "4.87 GiB is reserved but not allocated: let the allocator grow segments instead of keeping them.",
                "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            ),
        ),
        evidence=(oom, watchdog),
        rule="cuda-out-of-memory",
        time=_NOON + 187.221,
        explains=(
            Consequence("watchdog-timeout", "watchdog-timeout", (0, 1, 2, 3, 4, 6, 7), 602.262),
            Consequence("store-lost", "tcpstore-reset", (3,), None),
        ),
    )
    timeout = Finding(
        cause="watchdog-timeout",
        role=Role.SYMPTOM,
        title="Ranks 0-4,6,7 ran into the watchdog timeout of 600 s in all_reduce 1842",
        ranks=(0, 1, 2, 3, 4, 6, 7),
        affected_ranks=(),
        hosts=("node01", "node02"),
        confidence=0.9,
        explanation="They waited for rank 5.",
        remedies=(),
        evidence=(watchdog,),
        rule="watchdog-timeout",
        explained_by="gpu-out-of-memory",
        time=_NOON + 789.483,
    )
    lost = Finding(
        cause="store-lost",
        role=Role.SYMPTOM,
        title="Rank 3 lost the TCPStore on rank 0",
        ranks=(3,),
        affected_ranks=(),
        hosts=("node01",),
        confidence=0.85,
        explanation="Rank 0 ended and took the store with it.",
        remedies=(),
        evidence=(store,),
        rule="tcpstore-reset",
        explained_by="watchdog-timeout",
        time=_NOON + 791.102,
    )
    ranks = tuple(
        RankState(
            rank,
            f"node0{rank // 4 + 1}",
            41200 + rank,
            str(rank % 4),
            "dead" if rank == 5 else "waiting",
            "train.py:212 forward" if rank == 5 else "train.py:218 backward",
            "2026-05-01T12:03:07.221" if rank == 5 else f"2026-05-01T12:13:1{rank}.400",
        )
        for rank in range(8)
    )
    return Report(
        hangscope_version="0.1.0",
        job=JobInfo(
            8,
            tuple(range(8)),
            ("node01", "node02"),
            "2.6.0",
            "2.21.5",
            "12.4",
            None,
            "torchrun",
            "2026-05-01T11:58:40",
            "2026-05-01T12:13:17.400",
        ),
        verdict=verdict,
        findings=(verdict, timeout, lost),
        collectives=(CollectiveState("0 (default_pg)", 8, 1842, "all_reduce", (0, 1, 2, 3, 4, 6, 7), (5,), {}),),
        ranks=ranks,
        story=(
            StoryStep("2026-05-01T12:03:07.221", (5,), "ran out of GPU memory and died", (oom,), "gpu-out-of-memory"),
            StoryStep(
                "2026-05-01T12:13:09.483",
                (0, 1, 2, 3, 4, 6, 7),
                "watchdog timeout in all_reduce 1842 (10 min 2 s later)",
                (watchdog,),
                "watchdog-timeout",
                "gpu-out-of-memory",
                602.262,
            ),
            StoryStep(
                "2026-05-01T12:13:11.102",
                (3,),
                "lost the TCPStore on rank 0 (1.62 s after watchdog-timeout)",
                (store,),
                "store-lost",
                "watchdog-timeout",
                1.619,
            ),
        ),
        next_steps=(
            *(NextStep(remedy.text, remedy.command) for remedy in verdict.remedies),
            NextStep(
                "Record what holds the memory at the moment of the failure.",
                "torch.cuda.memory._record_memory_history(max_entries=100000)",
            ),
            NextStep("Have every rank say what NCCL does, next time.", "export NCCL_DEBUG=INFO"),
        ),
        sources=tuple(
            SourceRecord(f"logs/rank{rank}.log", "text", 2200 + rank, 184_000 + rank, 3 if rank == 2 else 0)
            for rank in range(8)
        ),
        warnings=(),
    )


def missing_ranks() -> Report:
    """1,024 ranks on 128 hosts; one host's ranks never came to a collective, and left no reason."""
    absent = tuple(range(504, 512))
    arrived = tuple(rank for rank in range(1024) if rank not in absent and rank != 77)
    heartbeat = _line(
        "logs/node064/rank504.log",
        88120,
        "2026-05-01 12:00:04,118 INFO trainer: step 48210 loss 2.113 lr 3.0e-05 tokens/s 410233",
        "the last line that rank 504 wrote",
    )
    desync = _line(
        "logs/node001/rank0.log",
        90412,
        "[rank0]:[E501 12:10:05.001212 ProcessGroupNCCL.cpp:1537] [PG ID 0 PG GUID 0(default_pg) Rank 0] Timeout at"
        " collective: ALLGATHER, #48211; ranks that did not arrive: [504, 505, 506, 507, 508, 509, 510, 511]",
        "names the ranks that did not come",
    )
    verdict = Finding(
        cause="node-failure",
        role=Role.CAUSE,
        title="node064 went away with ranks 504-511",
        ranks=absent,
        affected_ranks=arrived,
        hosts=("node064",),
        confidence=0.62,
        explanation=(
            "All 8 ranks of node064 wrote their last line at 12:00:04 within 40 ms and never came to all_gather 48211,"
            " in which 1,015 ranks wait. No rank of node064 left an error, so the machine or its network ended, not"
            " the program."
        ),
        remedies=(
            Remedy("Look at what the kernel of node064 said.", "ssh node064 'dmesg -T | tail -200'"),
            Remedy(
                "Ask Slurm whether the node failed.",
                "sacct -N node064 -S 2026-05-01T11:50 -o jobid,state,nodelist",
            ),
            Remedy(
                "Keep the node out and start again.",
                "scontrol update nodename=node064 state=drain reason=hang",
            ),
        ),
        evidence=(heartbeat, desync),
        rule="whole-node-silent",
        time=_NOON + 4.118,
    )
    states = dict.fromkeys(absent, "missing") | {77: "unknown"}
    ranks = tuple(
        RankState(
            rank,
            f"node{rank // 8 + 1:03d}",
            9000 + rank,
            str(rank % 8),
            states.get(rank, "waiting"),
            None if rank in states else "parallel_state.py:431 all_gather",
            "2026-05-01T12:00:04.118" if rank in absent else "2026-05-01T12:10:05",
        )
        for rank in range(1024)
    )
    return Report(
        hangscope_version="0.1.0",
        job=JobInfo(
            1024,
            tuple(rank for rank in range(1024) if rank != 77),
            tuple(f"node{number:03d}" for number in range(1, 129)),
            "2.7.1",
            ("2.26.2", "2.26.5"),
            "12.8",
            "570.124.06",
            "srun",
            "2026-04-30T20:11:00",
            "2026-05-01T12:10:05",
        ),
        verdict=verdict,
        findings=(verdict,),
        collectives=(
            CollectiveState("0 (default_pg)", 1024, 48211, "all_gather", arrived, absent, {77: "all_reduce(numel=1)"}),
        ),
        ranks=ranks,
        story=(
            StoryStep("2026-05-01T12:00:04.118", absent, "last sign of life", (heartbeat,)),
            StoryStep("2026-05-01T12:10:05.001", arrived, "timed out in all_gather 48211", (desync,)),
        ),
        next_steps=(
            *(NextStep(remedy.text, remedy.command) for remedy in verdict.remedies),
            NextStep("Collect the log of rank 77 (node010); there is none."),
        ),
        sources=(
            *(
                SourceRecord(f"logs/node{rank // 8 + 1:03d}/rank{rank}.log", "text", 90_000, 9_300_000, 0)
                for rank in range(1024)
                if rank != 77
            ),
            SourceRecord("logs/node010/rank77.log", "unreadable", 0, 0, 0, "Permission denied"),
        ),
        warnings=(
            "The clocks of node064 and node001 differ by 1.4 s; the order of close events is not certain.",
            "Rank 77 left no log.",
        ),
    )


def _bare(verdict: Finding, next_steps: tuple[NextStep, ...], warnings: tuple[str, ...], lines: int) -> Report:
    return Report(
        hangscope_version="0.1.0",
        job=JobInfo(None, (0,), (), "2.6.0", None, None, None, None, None, None),
        verdict=verdict,
        findings=(verdict,),
        collectives=(),
        ranks=(RankState(0, None, None, None, "unknown", None, None),),
        story=(),
        next_steps=next_steps,
        sources=(SourceRecord("train.log", "text", lines, lines * 90, 0),),
        warnings=warnings,
    )


def no_fault() -> Report:
    """A job that ended well."""
    verdict = Finding(
        cause="no-fault-found",
        role=Role.CAUSE,
        title="No fault found: the job ended well",
        ranks=(),
        affected_ranks=(),
        hosts=(),
        confidence=0.9,
        explanation="The log ends with the job's regular last words, and nothing in it speaks of a failure.",
        remedies=(),
        evidence=(_line("train.log", 812, "destroy_process_group: done", "the regular end"),),
        rule="no-fault-found",
    )
    return _bare(verdict, (), (), 812)


def insufficient_evidence() -> Report:
    """A hang of which only one rank's log is there."""
    verdict = Finding(
        cause="insufficient-evidence",
        role=Role.CAUSE,
        title="The job hangs, and these logs cannot tell why",
        ranks=(),
        affected_ranks=(0,),
        hosts=(),
        confidence=0.4,
        explanation="Rank 0 stopped writing in the middle of a step. Nothing shows what the other ranks do.",
        remedies=(),
        evidence=(_line("train.log", 120, "step 118 loss 2.4", "the last line"),),
        rule="insufficient-evidence",
        also_said=tuple(
            _line("train.log", 100 + n, f"node01:41{n}:42{n} [0] proxy.cc:{n} NCCL WARN {text}", "NCCL said so")
            for n, text in enumerate(("[Proxy Service 0] Something odd\x1b[31m", "a second", "a third", "a fourth"))
        ),
    )
    steps = (
        NextStep(
            "Give the logs of all ranks, not of rank 0 only.",
            "torchrun --log_dir logs --tee 3 train.py",
            "which ranks started, how far each came and how it ended",
        ),
        NextStep(
            "While it hangs, take a stack of every rank.",
            "py-spy dump --pid PID > rank0.stack",
            "which ranks are in the collective, and which are elsewhere and at which line",
        ),
        NextStep("Next time, have NCCL say what it does.", "export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl.%h.%p.log"),
    )
    return _bare(verdict, steps, ("Only rank 0 left a log; the world size is not known.",), 120)


def stuck_loader() -> Report:
    """1,024 ranks, of which one waits for its loader, whose workers hang in a read; a stack of every process."""
    script = "/workspace/pretrain/train.py"
    others = tuple(rank for rank in range(1024) if rank != 511)
    finding = Finding(
        cause="data-loading-stall",
        role=Role.CAUSE,
        title="Rank 511 waits for its data loader",
        ranks=(511,),
        affected_ranks=others,
        hosts=("node064",),
        confidence=0.85,
        explanation="Rank 511 waits for a batch; its loader's workers are in read_tar. The others wait in all_reduce.",
        remedies=(),
        evidence=(_line("dumps/node064.txt", 201, "_try_get_data (torch/utils/data/dataloader.py:1291)", "waits"),),
        rule="loader-workers-blocked",
    )
    stacks = (
        StackState(
            (511,), (), 1, "rank", "waiting-for-loader", "", f"{script}:30 main",
            (
                "_PollLikeSelector.select (selectors.py:415)",
                "wait (multiprocessing/connection.py:947)",
                "Queue.get (multiprocessing/queues.py:113)",
                "_MultiProcessingDataLoaderIter._try_get_data (torch/utils/data/dataloader.py:1291)",
                "_MultiProcessingDataLoaderIter._get_data (torch/utils/data/dataloader.py:1464)",
                "_BaseDataLoaderIter.__next__ (torch/utils/data/dataloader.py:725)",
                f"main ({script}:30)",
                f"<module> ({script}:38)",
            ),
            outlier=True, change="stuck", at=Location("dumps/node064.txt", 192), activity="idle",
        ),
        StackState(
            others, (), 1023, "rank", "in-collective", "all_reduce", f"{script}:32 main",
            ("all_reduce (torch/distributed/distributed_c10d.py:3252)", f"main ({script}:32)"),
            outlier=False, change="stuck", at=Location("dumps/node001.txt", 2), activity="idle",
        ),
        StackState(
            (511,), (), 2, "loader", "loading-data", "", f"{script}:17 TarDataset.read_tar",
            (f"TarDataset.read_tar ({script}:17)", f"TarDataset.__getitem__ ({script}:22)"),
            outlier=False, change="", at=Location("dumps/node064.txt", 220),
        ),
        StackState(
            (), ("pid 14858 on node001", "pid 14859 on node003"), 2, "launcher", "launcher", "", None,
            ("_invoke_run (torch/distributed/elastic/agent/server/api.py:916)",),
            outlier=False, change="moving", at=Location("dumps/agents.txt", 1),
        ),
    )  # fmt: skip
    tree = (
        StackNode(
            "<module> (pretrain/train.py:38)",
            tuple(range(1024)),
            1024,
            (
                StackNode("main (pretrain/train.py:32)", others, 1023, (
                    StackNode("all_reduce (distributed/distributed_c10d.py:3252)", others, 1023),
                )),
                StackNode("main (pretrain/train.py:30)", (511,), 1, (
                    StackNode("__next__ (data/dataloader.py:725)", (511,), 1),
                )),
            ),
        ),
    )  # fmt: skip
    ranks = tuple(
        RankState(
            rank, f"node{rank // 8 + 1:03}", 4000 + rank % 8, None, "loading" if rank == 511 else "waiting",
            f"{script}:{30 if rank == 511 else 32} main", None,
        )
        for rank in range(1024)
    )  # fmt: skip
    return replace(_bare(finding, (), (), 90_000), ranks=ranks, stacks=stacks, stack_tree=tree)


def _value(
    text: str, first: int, last: int, line: int | None, *, hosts: tuple[str, ...] | None = None
) -> ComparedValue:
    """What ranks `first` to `last` have, eight a host; `line` is where the first of them says so."""
    on = tuple(f"node{n:03d}" for n in range(first // 8 + 1, last // 8 + 2)) if hosts is None else hosts
    shown = _line(f"nccl/rank{first}.log", line, f"{text} is what this line says", "") if line is not None else None
    return ComparedValue(text, tuple(range(first, last + 1)), on, (), last - first + 1, shown)


def many_differences() -> Report:
    """A thousand ranks of two images, one host without InfiniBand, and a rank that alone complains."""
    verdict = Finding(
        cause="nccl-version-mismatch",
        role=Role.CAUSE,
        title="NCCL 2.26.2 on node[065-128], 2.27.7 elsewhere",
        ranks=tuple(range(512, 1024)),
        affected_ranks=tuple(range(512)),
        hosts=tuple(f"node{n:03d}" for n in range(65, 129)),
        confidence=0.72,
        explanation="Ranks of one job run different NCCL versions. Their messages have different layouts.",
        remedies=(),
        evidence=(_line("nccl/rank512.log", 2, "NCCL INFO NCCL version 2.26.2+cuda12.2", "NCCL 2.26.2"),),
        rule="nccl-versions-differ",
    )
    adapters = " ".join(f"mlx5_{n}" for n in range(8))
    complaint = _line(
        "nccl/rank77.log",
        40,
        "node010:4177:4203 [5] net_ib.cc:812 NCCL WARN NET/IB : Unable to open device mlx5_6",
        "",
    )
    image = (("NCCL", True, "2.27.7", "2.26.2"), ("NVIDIA driver", False, "570.124.06", "535.104.05"))
    last_host = (
        ("settings", "NCCL_IB_HCA", False, adapters, "not set"),
        ("network", "HCAs", True, "8 IB", "none"),
        ("network", "NCCL's network", True, "IB", "Socket"),
    )
    others = ComparedValue("not printed", (*range(77), *range(78, 1024)), (), (), 1023, None)
    comparisons = (
        Comparison("versions", "PyTorch", True, (_value("2.7.1", 0, 1023, 1),)),
        *(
            Comparison("versions", what, must_agree, (_value(usual, 0, 511, 2), _value(odd, 512, 1023, 2)))
            for what, must_agree, usual, odd in image
        ),
        *(
            Comparison(topic, what, must_agree, (_value(usual, 0, 1015, 7), _value(odd, 1016, 1023, None)))
            for topic, what, must_agree, usual, odd in last_host
        ),
        Comparison(
            "init", "init of world", True, (_value("Init START", 0, 1022, 8), _value("NCCL loaded", 1023, 1023, 1))
        ),
        Comparison(
            "messages",
            "NET/IB : Unable to open device #",
            False,
            (ComparedValue("printed", (77,), ("node010",), (), 1, complaint), others),
        ),
    )
    return replace(_bare(verdict, (), (), 90_112), comparisons=comparisons)


def all_alike() -> Report:
    """Nobody knows why, and everything that was compared is equal."""
    comparisons = tuple(
        Comparison("versions", product, True, (_value(version, 0, 15, 1),))
        for product, version in (("PyTorch", "2.7.1"), ("NCCL", "2.27.7"))
    )
    return replace(insufficient_evidence(), comparisons=comparisons)


def hostile() -> Report:
    """Everything that a log may do to a terminal, in every place where text of a log is shown."""
    nasty = (
        "\x1b[31mred\x1b]0;owned\x07 [bold]markup[/bold] [/] \x00nul \u202egnp.exe :smile: \u200bzero\r\nsecond \x9b2J"
    )
    evidence = _line("lo[red]gs/\x1b[2J.log", 1, nasty + " x" * 5000 + " the end matters", nasty)
    verdict = Finding(
        cause="python-exception",
        role=Role.CAUSE,
        title=nasty,
        ranks=(0,),
        affected_ranks=(1,),
        hosts=(nasty,),
        confidence=0.5,
        explanation=nasty,
        remedies=(Remedy(nasty, nasty),),
        evidence=(evidence,),
        rule="python-exception",
        time=_NOON,
    )
    other = Finding("peer-lost", Role.SYMPTOM, nasty, (1,), (), (nasty,), 0.5, nasty, (), (evidence,), "peer-lost")
    return Report(
        hangscope_version="0.1.0",
        job=JobInfo(2, (0, 1), (nasty,), nasty, (nasty, nasty), None, None, nasty, None, None),
        verdict=verdict,
        findings=(verdict, other),
        collectives=(CollectiveState(nasty, 2, 1, nasty, (1,), (), {0: nasty}),),
        ranks=(
            RankState(0, nasty, 1, nasty, "dead", nasty, None),
            RankState(1, None, None, None, "waiting", None, None),
        ),
        story=(StoryStep(None, (0,), nasty, (evidence,)),),
        next_steps=(NextStep(nasty, nasty),),
        sources=(SourceRecord("lo[red]gs/\x1b[2J.log", "text", 1, 10_000, 1, nasty),),
        warnings=(nasty,),
        stacks=(
            StackState(
                (0,), (nasty,), 2, "rank", "in-p2p", nasty, nasty, (nasty,), True, "slow", Location(nasty, 1), nasty
            ),
        ),
        stack_tree=(StackNode(nasty, (0,), 1, (StackNode(nasty, (), 1),)),),
        comparisons=(
            Comparison(
                "settings",
                nasty,
                True,
                (
                    ComparedValue(nasty, (0,), (nasty,), (), 1, evidence),
                    ComparedValue("x", (), (), (nasty,), 1, None),
                ),
            ),
            Comparison("messages", nasty, False, (ComparedValue("printed", (), (nasty,), (), 1, evidence),)),
        ),
    )


def thousand_with_calls() -> Report:
    """`missing_ranks` with the last 40 calls of all 137 groups, each with the time at which every rank came."""

    def group(name: str, about: str, ranks: tuple[int, ...], absent: frozenset[int]) -> GroupHistory:
        calls = tuple(
            CallHistory(
                seq, "all_gather", "1048576 bfloat16", "parallel_state.py:431 all_gather",
                tuple(
                    CallState.DONE if seq < 48211 or not absent else
                    CallState.MISSING if rank in absent else CallState.WAITING for rank in ranks
                ),
                tuple(None if rank in absent and seq == 48211 else _NOON + seq + rank * 1e-4 for rank in ranks),
            )
            for seq in range(48172, 48212)
        )  # fmt: skip
        return GroupHistory(name, about, len(ranks), ranks, 48171, calls, stuck=48211 if absent else None)

    report = missing_ranks()
    absent = frozenset(report.verdict.ranks)
    world = group("0", "default_pg", tuple(range(1024)), absent)
    groups = [group(f"{n + 1}", "tp", tuple(range(8 * n, 8 * n + 8)), frozenset()) for n in range(128)]
    groups += [group(f"{n + 200}", "dp", tuple(range(n, 1024, 8)), absent & {504 + n}) for n in range(8)]
    stuck_first = sorted(groups, key=lambda one: one.stuck is None)
    stuck = replace(report.collectives[0], group="0", description="default_pg")
    return replace(report, collectives=(stuck,), history=History("recorder", (world, *stuck_first)))


def with_calls() -> Report:
    """Eight ranks; rank 5 left out the last all_reduce, and rank 2 called something else in its own group."""
    done, wait, gone, differs = CallState.DONE, CallState.WAITING, CallState.MISSING, CallState.DIFFERS
    everybody, pair = tuple(range(8)), (2, 3)

    def calls(size: int, last: CallHistory) -> tuple[CallHistory, ...]:
        before = [
            CallHistory(
                seq, "all_gather", f"{seq * 1024} float32", f"train.py:{200 + seq % 3} step", (done,) * size,
                tuple(_NOON + seq + rank / 1000 for rank in range(size)),
            )
            for seq in range(last.seq - 11, last.seq)
        ]  # fmt: skip
        return (*before, last)

    stuck = CallHistory(
        1842, "all_reduce", "26214400 float32", "train.py:218 backward", (*(wait,) * 5, gone, wait, wait),
        tuple(None if rank == 5 else _NOON + 1842 + rank for rank in everybody),
    )  # fmt: skip
    apart = CallHistory(
        17, "broadcast", "64 int64", "", (differs, wait), (_NOON + 90, _NOON + 91), {2: "all_gather of 8 int64"}
    )
    history = History(
        "recorder",
        (
            GroupHistory("0", "default_pg", 8, everybody, 1831, calls(8, stuck), stuck=1842),
            GroupHistory("4", "tp", 2, pair, 6, calls(2, apart), stuck=17),
            GroupHistory("3", "tp", 2, (0, 1), 0, calls(2, replace(apart, states=(done, done), differing={}))),
        ),
        (
            Transfer(0, 1, "send", "pp", 7, "[32] float32", "pipe.py:9 forward", done, _NOON),
            Transfer(1, 0, "recv", "pp", 8, "[32] float32", "pipe.py:12 forward", wait, _NOON + 1),
        ),
        counts=(GroupCounts("9", "dp", 4, (0, 2, 4, 6), (12, 12, 11, None)),),
    )
    report = out_of_memory()
    group = replace(report.collectives[0], group="0", description="default_pg")
    return replace(report, collectives=(group,), history=history)


SAMPLES = {
    "out-of-memory": out_of_memory,
    "missing-ranks": missing_ranks,
    "no-fault": no_fault,
    "insufficient-evidence": insufficient_evidence,
    "stuck-loader": stuck_loader,
    "many-differences": many_differences,
    "all-alike": all_alike,
}
