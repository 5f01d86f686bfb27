# ruff: noqa: E501  (a stack is one line)
"""Jobs of many frameworks, seen through the stacks of their ranks: the cause, and who is to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hangscope.api import analyze
from hangscope.model import Report
from stack_scenes import TOOLS, pid_of, pyspy

C10D = "wrapper (torch/distributed/c10d_logger.py:83)"
THREAD = "Thread.run (threading.py:982) < Thread._bootstrap_inner (threading.py:1045) < Thread._bootstrap (threading.py:1002)"


def c10d(operation: str, line: int = 3252) -> str:
    """The frames of torch for a call."""
    return f"{operation} (torch/distributed/distributed_c10d.py:{line}) < {C10D}"


ALL_REDUCE, BARRIER = c10d("all_reduce"), c10d("barrier", 5356)
TRAIN = "main (train.py:88) < <module> (train.py:120)"
SYNC = f"{ALL_REDUCE} < sync_gradients (train.py:31) < {TRAIN}"
LOADER = (
    "select (selectors.py:415) < wait (multiprocessing/connection.py:947) < Queue.get (multiprocessing/queues.py:113) < "
    "_MultiProcessingDataLoaderIter._try_get_data (torch/utils/data/dataloader.py:1251) < "
    "_MultiProcessingDataLoaderIter._next_data (torch/utils/data/dataloader.py:1453) < "
    "_BaseDataLoaderIter.__next__ (torch/utils/data/dataloader.py:733)"
)


@dataclass(frozen=True)
class Case:
    """A job that hangs.

    Attributes:
        scene: what every rank does.
        causes: verdicts that are right, the best first.
        ranks: who is to blame.
        logs: further files.
    """

    scene: Mapping[int, str]
    causes: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict)


def others(odd: Mapping[int, str], usual: str, world: int = 4) -> dict[int, str]:
    """A job in which all ranks but some do the same."""
    return {rank: odd.get(rank, usual) for rank in range(world)}


DEEPSPEED_STEP = (
    "DeepSpeedEngine.step (deepspeed/runtime/engine.py:2310) < main (pretrain.py:210) < <module> (pretrain.py:255)"
)
ZERO3 = (
    "all_gather_into_tensor (torch/distributed/distributed_c10d.py:3800) < wrapper (torch/distributed/c10d_logger.py:83) < "
    "all_gather_into_tensor (deepspeed/comm/torch.py:219) < log_wrapper (deepspeed/comm/comm.py:118) < "
    "PartitionedParameterCoordinator.fetch_sub_module (deepspeed/runtime/zero/partitioned_param_coordinator.py:310) < "
    "Module._call_impl (torch/nn/modules/module.py:1786) < forward (model.py:{line}) < main (pretrain.py:190) < <module> (pretrain.py:255)"
)
MEGATRON = "train_step (megatron/training/training.py:1380) < train (megatron/training/training.py:2100) < pretrain (megatron/training/training.py:900) < <module> (pretrain_gpt.py:300)"
MEGATRON_RECV = (
    "_communicate (megatron/core/pipeline_parallel/p2p_communication.py:400) < "
    "recv_forward (megatron/core/pipeline_parallel/p2p_communication.py:450) < "
    f"forward_backward_pipelining_without_interleaving (megatron/core/pipeline_parallel/schedules.py:1900) < {MEGATRON}"
)
LIGHTNING = "_FitLoop.advance (lightning/pytorch/loops/fit_loop.py:460) < Trainer.fit (lightning/pytorch/trainer/trainer.py:560) < main (fit.py:40) < <module> (fit.py:52)"
LIGHTNING_BARRIER = f"{BARRIER} < DDPStrategy.barrier (lightning/pytorch/strategies/ddp.py:310)"
ACCELERATE_WAIT = f"{BARRIER} < wait_for_everyone (accelerate/state.py:380) < Accelerator.wait_for_everyone (accelerate/accelerator.py:2900)"
FSDP1 = (
    "_all_gather_flat_param (torch/distributed/fsdp/_flat_param.py:1400) < FlatParamHandle.unshard (torch/distributed/fsdp/_flat_param.py:1300) < "
    f"_unshard (torch/distributed/fsdp/_runtime_utils.py:300) < forward (model.py:60) < {TRAIN}"
)
FSDP2 = (
    "foreach_all_gather (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py:180) < "
    f"FSDPParamGroup.unshard (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py:340) < {TRAIN}"
)
VLLM = (
    "PyNcclCommunicator.all_reduce (vllm/distributed/device_communicators/pynccl.py:120) < GroupCoordinator.all_reduce "
    "(vllm/distributed/parallel_state.py:390) < LlamaMLP.forward (vllm/model_executor/models/llama.py:110) < GPUModelRunner.execute_model "
    "(vllm/v1/worker/gpu_model_runner.py:2300) < WorkerProc.worker_busy_loop (vllm/v1/executor/multiproc_executor.py:664)"
)
TRITON = "CompiledKernel._init_handles (triton/compiler/compiler.py:473) < JITFunction.run (triton/runtime/jit.py:756)"

CASES = {
    # --- data ---
    "loader workers late, DDP": Case(others({2: f"{LOADER} < {TRAIN}"}, SYNC), ("data-loading-stall",), (2,)),
    "loader workers late, FSDP1": Case(others({0: f"{LOADER} < {TRAIN}"}, FSDP1), ("data-loading-stall",), (0,)),
    "loader workers late, FSDP2, the GPU waits": Case(
        others({1: f"{LOADER} < {TRAIN}"}, f"synchronize (torch/cuda/__init__.py:1040) < {TRAIN}"),
        ("data-loading-stall",),
        (1,),
    ),
    "reads in the main process, Lightning": Case(
        others(
            {
                3: "open_shard (data.py:20) < ShardDataset.__getitem__ (data.py:33) < _MapDatasetFetcher.fetch "
                "(torch/utils/data/_utils/fetch.py:54) < _SingleProcessDataLoaderIter._next_data (torch/utils/data/dataloader.py:790) < "
                f"_BaseDataLoaderIter.__next__ (torch/utils/data/dataloader.py:733) < {LIGHTNING}"
            },
            f"{BARRIER} < DDPStrategy.barrier (lightning/pytorch/strategies/ddp.py:310) < {LIGHTNING}",
        ),
        ("data-loading-stall",),
        (3,),
    ),
    "index of Megatron's data set": Case(
        others(
            {
                0: f"IndexedDataset.get (megatron/core/datasets/indexed_dataset.py:520) < GPTDataset.__getitem__ (megatron/core/datasets/gpt_dataset.py:220) < {MEGATRON}"
            },
            MEGATRON_RECV,
        ),
        ("data-loading-stall",),
        (0,),
    ),
    "two ranks of eight wait for data": Case(
        others(dict.fromkeys((4, 5), f"{LOADER} < {TRAIN}"), SYNC, 8), ("data-loading-stall",), (4, 5)
    ),
    "a prefetching thread behind a queue": Case(
        others(
            {
                1: f"Condition.wait (threading.py:327) < Queue.get (queue.py:171) < Prefetcher.__next__ (prefetch.py:30) < {TRAIN}\n"
                f"[prefetch] Prefetcher.fill (prefetch.py:51) < {THREAD}"
            },
            SYNC,
        ),
        ("data-loading-stall",),
        (1,),
    ),
    "an object store that does not answer": Case(
        others(
            {
                2: f"recv_into (ssl.py:1100) < send (botocore/httpsession.py:460) < get_object (botocore/client.py:570) < pull (remote.py:14) < {TRAIN}"
            },
            SYNC,
        ),
        ("data-loading-stall",),
        (2,),
    ),
    "a tokenizer on rank 0": Case(
        others(
            {0: f"[|active+gil] split_words (prep.py:8) < tokenize_corpus (prep.py:40) < {TRAIN}"},
            f"{BARRIER} < {TRAIN}",
        ),
        ("data-loading-stall", "compute-stall"),
        (0,),
    ),
    # --- checkpoints ---
    "a checkpoint on its way to an object store": Case(
        others(
            {
                0: f"send (botocore/httpsession.py:460) < put_object (botocore/client.py:570) < save_checkpoint (ckpt.py:14) < {TRAIN}"
            },
            f"{BARRIER} < {TRAIN}",
        ),
        ("checkpoint-stall",),
        (0,),
    ),
    "rank 0 writes, accelerate": Case(
        others(
            {
                0: "_save (torch/serialization.py:1008) < save (torch/serialization.py:943) < save_checkpoint (run.py:70) < main (run.py:140) < <module> (run.py:180)"
            },
            f"{ACCELERATE_WAIT} < main (run.py:142) < <module> (run.py:180)",
        ),
        ("checkpoint-stall",),
        (0,),
    ),
    "rank 0 writes safetensors, transformers": Case(
        others(
            {
                0: "save_file (safetensors/torch.py:350) < PreTrainedModel.save_pretrained (transformers/modeling_utils.py:3700) < main (run.py:140) < <module> (run.py:180)"
            },
            f"{BARRIER} < main (run.py:142) < <module> (run.py:180)",
        ),
        ("checkpoint-stall",),
        (0,),
    ),
    "a distributed checkpoint waits for one writer": Case(
        others(
            {
                2: "_write_item (torch/distributed/checkpoint/filesystem.py:420) < _write_files_from_queue (torch/distributed/checkpoint/filesystem.py:480) < "
                f"FileSystemWriter.write_data (torch/distributed/checkpoint/filesystem.py:700) < save (torch/distributed/checkpoint/state_dict_saver.py:170) < {TRAIN}"
            },
            f"{c10d('gather_object')} < _DistWrapper.gather_object (torch/distributed/checkpoint/utils.py:130) < _DistWrapper.all_reduce "
            f"(torch/distributed/checkpoint/utils.py:250) < save (torch/distributed/checkpoint/state_dict_saver.py:175) < {TRAIN}",
        ),
        ("checkpoint-stall",),
        (2,),
    ),
    "one rank reads its weights, the rest are at the start": Case(
        others(
            {
                1: f"_load (torch/serialization.py:2100) < load (torch/serialization.py:1500) < resume (train.py:50) < {TRAIN}"
            },
            f"_verify_param_shape_across_processes (torch/distributed/utils.py:290) < DistributedDataParallel.__init__ (torch/nn/parallel/distributed.py:860) < {TRAIN}",
        ),
        ("checkpoint-stall",),
        (1,),
    ),
    "an own function that flushes a checkpoint": Case(
        others({0: f"fsync_all (store.py:14) < save_ckpt (store.py:40) < {TRAIN}"}, f"{BARRIER} < {TRAIN}"),
        ("checkpoint-stall",),
        (0,),
    ),
    # --- compiling, computing ---
    "one rank compiles a Triton kernel, vLLM": Case(
        others(
            {
                1: f"[|active] {TRITON} < fused_moe (vllm/model_executor/layers/fused_moe/fused_moe.py:500) < WorkerProc.worker_busy_loop (vllm/v1/executor/multiproc_executor.py:664)"
            },
            VLLM,
            2,
        ),
        ("compute-stall",),
        (1,),
    ),
    "torch.compile on one rank": Case(
        others(
            {
                0: f"[|active] compile_fx (torch/_inductor/compile_fx.py:1900) < _compile (torch/_dynamo/convert_frame.py:900) < {TRAIN}"
            },
            SYNC,
        ),
        ("compute-stall",),
        (0,),
    ),
    "a rank packs sequences": Case(
        others({3: f"[|active+gil] pack (pack.py:9) < build_batch (pack.py:40) < {TRAIN}"}, SYNC),
        ("compute-stall",),
        (3,),
    ),
    "a rank is idle in its own code": Case(
        others({2: f"apply_schedule (schedule.py:12) < {TRAIN}"}, SYNC),
        ("compute-stall", "insufficient-evidence"),
        (2,),
    ),
    # --- locks, queues, children ---
    "two locks": Case(
        others(
            {
                1: f"MetricBuffer.append (metrics.py:18) < {TRAIN}\n"
                f"[metric-flusher] MetricBuffer.flush_loop (metrics.py:25) < {THREAD}"
            },
            SYNC,
        ),
        ("python-deadlock",),
        (1,),
    ),
    "an event that nobody sets": Case(
        others(
            {
                1: f"Condition.wait (threading.py:327) < Event.wait (threading.py:629) < drain (async_log.py:31) < {TRAIN}"
            },
            SYNC,
        ),
        ("python-deadlock",),
        (1,),
    ),
    "a stale build lock, DeepSpeed": Case(
        others(
            {
                2: "FileBaton.wait (torch/utils/file_baton.py:49) < _jit_compile (torch/utils/cpp_extension.py:1974) < load (torch/utils/cpp_extension.py:1380) < "
                "OpBuilder.jit_load (deepspeed/ops/op_builder/builder.py:560) < main (pretrain.py:60) < <module> (pretrain.py:255)"
            },
            f"{BARRIER} < barrier (deepspeed/comm/torch.py:420) < log_wrapper (deepspeed/comm/comm.py:118) < main (pretrain.py:64) < <module> (pretrain.py:255)",
        ),
        ("python-deadlock",),
        (2,),
    ),
    "a subprocess that does not end": Case(
        others(
            {
                0: f"Popen._wait (subprocess.py:2000) < Popen.wait (subprocess.py:1264) < run (subprocess.py:550) < git_hash (track.py:8) < {TRAIN}"
            },
            f"{BARRIER} < {TRAIN}",
        ),
        ("python-deadlock",),
        (0,),
    ),
    "an own lock file": Case(
        others({0: f"wait_for_lock (locks.py:9) < prepare (prep.py:12) < {TRAIN}"}, f"{BARRIER} < {TRAIN}"),
        ("python-deadlock",),
        (0,),
    ),
    "a queue without producer": Case(
        others(
            {
                3: f"Condition.wait (threading.py:327) < Queue.get (queue.py:171) < take_result (rollout.py:44) < {TRAIN}"
            },
            SYNC,
        ),
        ("python-deadlock",),
        (3,),
    ),
    # --- ranks part ---
    "early return from evaluation": Case(
        others(
            {2: f"{BARRIER} < main (train.py:95) < <module> (train.py:120)"},
            f"{ALL_REDUCE} < evaluate (train.py:60) < {TRAIN}",
        ),
        ("collective-skipped", "collective-op-mismatch"),
        (2,),
    ),
    "one batch more on one rank": Case(
        others({1: SYNC}, f"{BARRIER} < main (train.py:97) < <module> (train.py:120)"),
        ("collective-skipped", "collective-op-mismatch"),
        (1,),
    ),
    "half of the ranks are past the loop": Case(
        others(dict.fromkeys((2, 3), f"{BARRIER} < main (train.py:97) < <module> (train.py:120)"), SYNC),
        ("collective-skipped", "collective-op-mismatch"),
        (2, 3),
    ),
    "a metric that rank 0 alone reduces, Lightning": Case(
        others(
            {
                0: f"{c10d('all_gather')} < gather_all_tensors (torchmetrics/utilities/distributed.py:130) < Metric._sync_dist (torchmetrics/metric.py:480) < log_rank0 (fit.py:20) < {LIGHTNING}"
            },
            f"{LIGHTNING_BARRIER} < {LIGHTNING}",
        ),
        ("collective-skipped", "collective-op-mismatch"),
        (0,),
    ),
    "an expert without tokens, ZeRO-3": Case(
        others(
            {
                1: f"{c10d('all_reduce')} < all_reduce (deepspeed/comm/torch.py:170) < log_wrapper (deepspeed/comm/comm.py:118) < DeepSpeedZeroOptimizer_Stage3.step (deepspeed/runtime/zero/stage3.py:2120) < {DEEPSPEED_STEP}"
            },
            ZERO3.format(line=71),
        ),
        ("collective-skipped", "collective-op-mismatch"),
        (1,),
    ),
    "another branch with another operation": Case(
        others(
            {1: f"{c10d('broadcast', 2912)} < sync_scale (train.py:9) < {TRAIN}"},
            f"{ALL_REDUCE} < sync_scale (train.py:11) < {TRAIN}",
        ),
        ("collective-op-mismatch",),
        (1,),
    ),
    "two groups crosswise": Case(
        others(
            {3: f"{ALL_REDUCE} < step (train_2d.py:16) < {TRAIN}"}, f"{ALL_REDUCE} < step (train_2d.py:19) < {TRAIN}"
        ),
        ("group-order-deadlock", "collective-op-mismatch"),
        (3,),
    ),
    "new_group by members only": Case(
        others(
            dict.fromkeys(
                (0, 1),
                f"_store_based_barrier (torch/distributed/distributed_c10d.py:1063) < _new_group_with_tag (torch/distributed/distributed_c10d.py:6096) < new_group (torch/distributed/distributed_c10d.py:5863) < build (tp.py:10) < {TRAIN}",
            ),
            f"{c10d('all_gather')} < {c10d('all_gather_object', 3513)} < {TRAIN}",
        ),
        ("collective-skipped", "communicator-misuse", "collective-op-mismatch"),
        (2, 3),
    ),
    "a rank that exits, another in its last call": Case(
        others(
            {
                1: "destroy_process_group (torch/distributed/distributed_c10d.py:2145) < main (train.py:110) < <module> (train.py:120)"
            },
            SYNC,
        ),
        ("exited-early", "collective-skipped"),
        (1,),
    ),
    "one of a tensor-parallel group parts, the other replica waits for it": Case(
        {
            **dict.fromkeys((0, 1, 2), f"{c10d('all_gather_into_tensor')} < gather_sequence (tp.py:40) < {TRAIN}"),
            3: f"{c10d('all_reduce')} < log_norm (tp.py:80) < {TRAIN}",
            **dict.fromkeys((4, 5, 6, 7), f"{c10d('reduce_scatter_tensor')} < sync_replicas (dp.py:20) < {TRAIN}"),
        },
        ("collective-skipped", "collective-op-mismatch"),
        (3,),
    ),
    # --- point to point ---
    "one microbatch too many": Case(
        others(
            {3: f"{c10d('recv', 2507)} < recv_forward (pipeline.py:13) < {TRAIN}"},
            f"{BARRIER} < main (train.py:97) < <module> (train.py:120)",
        ),
        ("p2p-unmatched",),
        (3,),
    ),
    "two ranks receive from each other": Case(
        dict.fromkeys((0, 1), f"{c10d('recv', 2507)} < exchange (pipeline.py:22) < {TRAIN}"), ("p2p-unmatched",), (0, 1)
    ),
    "a Megatron stage waits, the rest are at the end": Case(
        others(
            {2: MEGATRON_RECV},
            f"{BARRIER} < save_checkpoint_and_time (megatron/training/training.py:1700) < train (megatron/training/training.py:2150) < pretrain (megatron/training/training.py:900) < <module> (pretrain_gpt.py:300)",
        ),
        ("p2p-unmatched",),
        (2,),
    ),
    # --- the end ---
    "a thread that is no daemon": Case(
        {
            1: f"_shutdown (threading.py:1590)\n[uploader] Condition.wait (threading.py:327) < Queue.get (queue.py:171) < Uploader.run (up.py:14) < {THREAD}"
        },
        ("teardown-hang", "python-deadlock"),
        (1,),
    ),
    "all destroy their groups": Case(
        dict.fromkeys(
            range(3),
            "_shutdown_backend (torch/distributed/distributed_c10d.py:2110) < destroy_process_group (torch/distributed/distributed_c10d.py:2145) < main (train.py:110) < <module> (train.py:120)",
        ),
        ("teardown-hang",),
        (),
    ),
    # --- nothing to accuse ---
    "rank 0 only": Case({0: SYNC}, ("insufficient-evidence",)),
    "all in one call": Case(dict.fromkeys(range(4), SYNC), ("insufficient-evidence",)),
    "most ranks compute": Case(
        others({1: SYNC}, f"[|active] forward (model.py:12) < {TRAIN}"), ("insufficient-evidence", "no-fault-found")
    ),
    "all compute": Case(
        dict.fromkeys(range(4), f"forward (model.py:12) < {TRAIN}"), ("insufficient-evidence", "no-fault-found")
    ),
    "a server without requests, SGLang": Case(
        {
            0: "Scheduler.recv_requests (sglang/srt/managers/scheduler.py:900) < Scheduler.event_loop_overlap (sglang/srt/managers/scheduler.py:700)",
            1: f"{c10d('broadcast')} < broadcast_pyobj (sglang/srt/utils.py:1100) < Scheduler.recv_requests (sglang/srt/managers/scheduler.py:920) < Scheduler.event_loop_overlap (sglang/srt/managers/scheduler.py:700)",
        },
        ("insufficient-evidence", "no-fault-found"),
    ),
    "workers of vLLM without requests": Case(
        dict.fromkeys(
            range(2),
            "ShmRingBuffer.acquire_read (vllm/distributed/device_communicators/shm_broadcast.py:456) < MessageQueue.dequeue (vllm/distributed/device_communicators/shm_broadcast.py:527) < WorkerProc.worker_busy_loop (vllm/v1/executor/multiproc_executor.py:660)",
        ),
        ("insufficient-evidence", "no-fault-found"),
    ),
    "many places": Case(
        {rank: f"{ALL_REDUCE} < stage (pipe.py:{10 + rank}) < {TRAIN}" for rank in range(4)}, ("insufficient-evidence",)
    ),
}


def write(files: Mapping[str, str], folder: Path) -> Path:
    """The folder with these files in it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def judge(files: Mapping[str, str], folder: Path) -> Report:
    """The report on these files."""
    return analyze(write(files, folder), jobs=1)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", CASES)
def test_stacks_of_all_ranks_tell_the_cause(name: str, tool: str, tmp_path: Path) -> None:
    case = CASES[name]
    report = judge({**TOOLS[tool](case.scene), **case.logs}, tmp_path)
    verdict = report.verdict
    assert verdict.cause in case.causes, (verdict.cause, verdict.title, verdict.explanation)
    assert verdict.ranks == case.ranks
    assert verdict.evidence or case.causes[0] == "insufficient-evidence"


ACCUSING = [name for name, case in CASES.items() if case.ranks and len(case.scene) > len(case.ranks) + 1]
GUESSES = (
    "half of the ranks are past the loop",
    "one of a tensor-parallel group parts, the other replica waits for it",
)


@pytest.mark.parametrize("name", [name for name in ACCUSING if name not in GUESSES])
def test_the_dump_of_an_innocent_rank_may_be_missing(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    innocent = max(rank for rank in case.scene if rank not in case.ranks)
    rest = {rank: text for rank, text in case.scene.items() if rank != innocent}
    verdict = judge(pyspy(rest), tmp_path).verdict
    assert verdict.cause in case.causes
    assert verdict.ranks == case.ranks


@pytest.mark.parametrize("name", ACCUSING)
def test_a_second_round_that_shows_the_same_changes_nothing(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    rounds = {f"round{number}/{file}": text for number in (1, 2) for file, text in pyspy(case.scene).items()}
    verdict = judge(rounds, tmp_path).verdict
    assert verdict.cause in case.causes
    assert verdict.ranks == case.ranks


@pytest.mark.parametrize("name", ACCUSING)
def test_processes_of_unknown_rank_are_told_apart_all_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    scene = dict(enumerate(case.scene.values()))
    files = {f"dump-{pid_of(rank)}.txt": text for rank, text in zip(scene, pyspy(scene).values(), strict=True)}
    verdict = judge(files, tmp_path).verdict
    assert verdict.cause in case.causes
    assert verdict.ranks in ((), case.ranks)


def gloo_timeouts(ranks: tuple[int, ...]) -> str:
    """What ranks print whose wait ran out."""
    lines = []
    for rank in ranks:
        at = f"[rank{rank}]: "
        lines += [
            f"{at}Traceback (most recent call last):",
            f'{at}  File "/workspace/train.py", line 88, in main',
            f"{at}    dist.all_reduce(flat)",
            f'{at}  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in all_reduce',
            f"{at}    work.wait()",
            f"{at}RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 600000ms for recv operation to complete",
        ]
    return "\n".join(lines) + "\n"


def nccl_timeouts(ranks: tuple[int, ...]) -> str:
    """What the watchdogs of ranks print whose wait ran out."""
    work = "WorkNCCL(SeqNum=19, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000)"
    return "".join(
        f"[rank{rank}]:[E1129 10:10:00.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: {work} ran for 600045 milliseconds before timing out.\n"
        for rank in ranks
    )


def nccl_aborts(ranks: tuple[int, ...]) -> str:
    """The same, and how the first of them ends, as torchrun tells it."""
    ends = "".join(
        f"[rank{rank}]:[E1129 10:10:00.323456789 ProcessGroupNCCL.cpp:698] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.\n"
        f"terminate called after throwing an instance of 'c10::DistBackendError'\n"
        for rank in ranks
    )
    launcher = f"E1129 10:10:02.538000 8087 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6) local_rank: {ranks[0]} (pid: {pid_of(ranks[0])}) of binary: /venv/bin/python3\n"
    return nccl_timeouts(ranks) + ends + launcher


def gloo_ends(ranks: tuple[int, ...]) -> str:
    """Timeouts of gloo, and torchrun's summary, which names the first of those who waited as the root cause."""
    first = ranks[0]
    return gloo_timeouts(ranks) + (
        f"E1129 15:54:12.538000 8087 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) local_rank: {first} (pid: {pid_of(first)}) of binary: /venv/bin/python3\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-29_15:54:12\n  host      : node01\n  rank      : {first} (local_rank: {first})\n"
        f"  exitcode  : 1 (pid: {pid_of(first)})\n"
    )


@pytest.mark.parametrize("told", [gloo_timeouts, nccl_timeouts, nccl_aborts, gloo_ends])
@pytest.mark.parametrize("name", ACCUSING)
def test_timeouts_of_the_peers_are_explained_by_it(
    name: str, told: Callable[[tuple[int, ...]], str], tmp_path: Path
) -> None:
    case = CASES[name]
    peers = tuple(rank for rank in case.scene if rank not in case.ranks)
    verdict = judge({**pyspy(case.scene), "job.log": told(peers)}, tmp_path).verdict
    assert verdict.cause in (*case.causes, "timeout-too-short")
    assert verdict.ranks == case.ranks


def test_a_rank_that_leaves_its_call_shows_that_the_job_goes_on(tmp_path: Path) -> None:
    before = pyspy(dict.fromkeys(range(3), SYNC))
    after = pyspy({0: SYNC, 1: f"forward (model.py:12) < {TRAIN}", 2: SYNC})
    rounds = {**{f"round1/{f}": t for f, t in before.items()}, **{f"round2/{f}": t for f, t in after.items()}}
    assert judge(rounds, tmp_path).verdict.cause == "no-fault-found"


def test_a_rank_killed_for_memory_stays_the_cause(tmp_path: Path) -> None:
    scene = others({1: f"{LOADER} < {TRAIN}"}, SYNC, 2)
    kernel = "[ 8132.1] Memory cgroup out of memory: Killed process 41014 (python) total-vm:91234kB, anon-rss:80000kB, file-rss:10kB\n"
    launcher = "E1129 15:54:12.538000 8087 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 2 (pid: 41014) of binary: /venv/bin/python3\n"
    verdict = judge({**pyspy(scene), "dmesg.txt": kernel, "job.log": launcher}, tmp_path).verdict
    assert verdict.cause == "host-out-of-memory"


def test_the_stack_of_a_crash_is_no_dump_of_a_hang(tmp_path: Path) -> None:
    log = (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007fb40f658b80 (most recent call first):\n"
        '  File "/workspace/data.py", line 11 in __getitem__\n'
        '  File "/workspace/train.py", line 52 in <module>\n'
    )
    verdict = judge({"rank1.log": log, **pyspy({0: SYNC, 2: SYNC})}, tmp_path).verdict
    assert verdict.cause == "native-crash"


def test_a_worker_of_the_loader_tells_what_it_reads(tmp_path: Path) -> None:
    files = pyspy(others({1: f"{LOADER} < {TRAIN}"}, SYNC, 3))
    files["pyspy/rank1.txt"] += (
        "-"
        * 80
        + f"\nProcess 41900: python -u train.py\nPython v3.11.7 (/usr/bin/python3.11)\nParent Process {pid_of(1)}: python -u train.py\n\n"
        'Thread 41900 (idle): "MainThread"\n    TarDataset.read_member (data.py:17)\n    TarDataset.__getitem__ (data.py:29)\n'
        "    fetch (torch/utils/data/_utils/fetch.py:54)\n    _worker_loop (torch/utils/data/_utils/worker.py:349)\n"
        "    BaseProcess.run (multiprocessing/process.py:108)\n    BaseProcess._bootstrap (multiprocessing/process.py:314)\n"
    )
    verdict = judge(files, tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("data-loading-stall", (1,))
    assert "read_member (data.py:17)" in verdict.explanation
    assert any("read_member" in line.text for line in verdict.evidence)


CLOSED = """\
W1129 16:34:43.648000 9475 torch/distributed/elastic/agent/server/api.py:739] Received Signals.SIGTERM death signal, shutting down workers
W1129 16:34:43.648000 9475 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 41000 closing signal SIGTERM
W1129 16:34:43.648000 9475 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 41007 closing signal SIGTERM
torch.distributed.elastic.multiprocessing.api.SignalException: Process 9475 got signal: 15
"""
CANCELLED = "slurmstepd: error: *** STEP 42.0 ON node01 CANCELLED AT 2026-11-29T16:34:43 ***\n"
KILLED = """\
E1129 16:34:43.648000 9475 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 0 (pid: 41000) of binary: /venv/bin/python3
"""


@pytest.mark.parametrize("end", [CLOSED, CANCELLED])
@pytest.mark.parametrize("name", ACCUSING)
def test_a_hung_job_that_is_ended_was_hung_before(name: str, end: str, tmp_path: Path) -> None:
    case = CASES[name]
    verdict = judge({**pyspy(case.scene), "job.log": f"step 10\n{end}"}, tmp_path).verdict
    assert verdict.cause in case.causes
    assert verdict.ranks == case.ranks


def test_the_old_dump_of_a_killed_rank_is_no_reason(tmp_path: Path) -> None:
    scene = others({0: f"{LOADER} < {TRAIN}"}, SYNC)
    verdict = judge({**pyspy(scene), "job.log": KILLED}, tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("killed-by-signal", (0,))


def test_two_threads_in_collectives_are_a_misuse(tmp_path: Path) -> None:
    worker = f"[metrics] {ALL_REDUCE} < reduce_metrics (metrics.py:60) < {THREAD}"
    scene = {0: f"{SYNC}\n{worker}", 1: f"{SYNC}\n{worker}", 2: f"{BARRIER} < {TRAIN}\n{worker}"}
    assert judge(pyspy(scene), tmp_path).verdict.cause == "communicator-misuse"


def test_a_checkpoint_in_the_background_is_no_misuse(tmp_path: Path) -> None:
    worker = (
        f"[AsyncExecutor] {c10d('gather_object')} < _DistWrapper.gather_object (torch/distributed/checkpoint/utils.py:130) < "
        f"save (torch/distributed/checkpoint/state_dict_saver.py:175) < {THREAD}"
    )
    scene = dict.fromkeys(range(3), f"{SYNC}\n{worker}")
    assert judge(pyspy(scene), tmp_path).verdict.cause == "insufficient-evidence"


def test_a_function_registered_for_the_exit_is_the_end(tmp_path: Path) -> None:
    scene = {2: "Condition.wait (threading.py:327) < Event.wait (threading.py:629) < flush_metrics (train.py:33)"}
    verdict = judge({**pyspy(scene), "job.log": "step 10\ntraining complete\n"}, tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("teardown-hang", (2,))


def test_work_that_moves_while_the_limit_runs_out_is_legitimate(tmp_path: Path) -> None:
    rounds: dict[str, str] = {}
    for number, place in ((1, "read_line (prep.py:10)"), (2, "write_line (prep.py:14)")):
        files = pyspy(others({0: f"[|active+gil] {place} < tokenize_all (prep.py:30) < {TRAIN}"}, SYNC, 3))
        rounds |= {f"round{number}/{name}": text for name, text in files.items()}
    verdict = judge({**rounds, "job.log": gloo_timeouts((1, 2))}, tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("timeout-too-short", (0,))


def test_a_log_that_goes_on_behind_the_dump_shows_a_healthy_job(tmp_path: Path) -> None:
    files = {}
    for rank in range(3):
        place = f"{SYNC}" if rank else f"{LOADER} < {TRAIN}"
        [(name, text)] = TOOLS["faulthandler"]({rank: place}).items()
        files[name] = text + "step 11 loss 2.4\nstep 12 loss 2.3\n"
    assert judge(files, tmp_path).verdict.cause == "no-fault-found"


def test_the_command_to_collect_what_is_missing_is_given(tmp_path: Path) -> None:
    log = "".join(f"[rank{rank}]: step 10 loss 2.5\n" for rank in range(4))
    report = judge({**pyspy({0: SYNC, 1: SYNC}), "job.log": log}, tmp_path)
    assert report.verdict.cause == "insufficient-evidence"
    assert "2" in report.verdict.explanation
    assert "py-spy dump" in str([remedy.command for remedy in report.verdict.remedies])


def test_who_started_the_ranks_is_not_to_blame(tmp_path: Path) -> None:
    files = pyspy(others({1: f"{LOADER} < {TRAIN}"}, SYNC, 2))
    files["pyspy/parent.txt"] = (
        "Process 40000: python main.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        'Thread 40000 (idle): "MainThread"\n    wait (multiprocessing/connection.py:947)\n'
        "    ProcessContext.join (torch/multiprocessing/spawn.py:160)\n    spawn (torch/multiprocessing/spawn.py:340)\n    <module> (main.py:20)\n"
    )
    verdict = judge(files, tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("data-loading-stall", (1,))


def test_the_engine_of_a_server_is_not_to_blame(tmp_path: Path) -> None:
    files = pyspy(
        {
            0: VLLM,
            1: f"[|active] {TRITON} < fused_moe (vllm/model_executor/layers/fused_moe/fused_moe.py:500) < WorkerProc.worker_busy_loop (vllm/v1/executor/multiproc_executor.py:664)",
        }
    )
    files["pyspy/engine.txt"] = (
        "Process 40000: VLLM::EngineCore\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        'Thread 40000 (idle): "MainThread"\n    ShmRingBuffer.acquire_read (vllm/distributed/device_communicators/shm_broadcast.py:456)\n'
        "    MessageQueue.dequeue (vllm/distributed/device_communicators/shm_broadcast.py:527)\n    get_response (vllm/v1/executor/multiproc_executor.py:230)\n"
        "    MultiprocExecutor.collective_rpc (vllm/v1/executor/multiproc_executor.py:240)\n    EngineCore.step (vllm/v1/engine/core.py:300)\n"
    )
    verdict = judge(files, tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("compute-stall", (1,))


DDP_BACKWARD = f"_engine_run_backward (torch/autograd/graph.py:979) < backward (torch/autograd/__init__.py:395) < Tensor.backward (torch/_tensor.py:623) < train_epoch (train.py:52) < {TRAIN}"
DDP_BUFFERS = f"DistributedDataParallel._sync_buffers (torch/nn/parallel/distributed.py:2425) < DistributedDataParallel.forward (torch/nn/parallel/distributed.py:1886) < train_epoch (train.py:50) < {TRAIN}"


@pytest.mark.parametrize(
    ("scene", "ranks"),
    [
        # one rank has fewer batches: it is in the barrier after the epoch, the others in C++ below backward
        (others({1: f"{BARRIER} < {TRAIN}"}, DDP_BACKWARD), (1,)),
        # one has more
        (others({1: DDP_BACKWARD}, f"{BARRIER} < {TRAIN}"), (1,)),
        # the others part as well, in one step of DDP
        ({0: DDP_BUFFERS, 1: f"{BARRIER} < {TRAIN}", 2: DDP_BACKWARD}, (1,)),
    ],
)
def test_uneven_inputs_of_ddp(scene: Mapping[int, str], ranks: tuple[int, ...], tmp_path: Path) -> None:
    verdict = judge(pyspy(scene), tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("collective-skipped", ranks)


def test_a_backward_pass_that_runs_is_work(tmp_path: Path) -> None:
    scene = others({2: f"[|active] {DDP_BACKWARD}"}, f"{BARRIER} < {TRAIN}")
    verdict = judge(pyspy(scene), tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("compute-stall", (2,))


def test_a_rank_between_two_steps_is_suspect_and_no_more(tmp_path: Path) -> None:
    verdict = judge(pyspy(others({1: "main (train.py:90) < <module> (train.py:120)"}, SYNC)), tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("insufficient-evidence", (1,))
    assert "ps -o pid,stat" in str([remedy.command for remedy in verdict.remedies])


@pytest.mark.parametrize(("switches", "cause"), [(0, "compute-stall"), (3, "insufficient-evidence")])
def test_a_rank_that_attach_saw_standing_is_more_than_suspect(switches: int, cause: str, tmp_path: Path) -> None:
    scene = others({1: "main (train.py:90) < <module> (train.py:120)"}, SYNC)
    rounds = {f"round{number}/{file}": text for number in (1, 2) for file, text in pyspy(scene).items()}
    measured = [
        line
        for rank in scene
        for line in (
            f"hangscope attach: process pid={pid_of(rank)} parent=1 role=rank rank={rank} world_size=4 host=alpha",
            f"hangscope attach: progress pid={pid_of(rank)} cpu_s=0.01 over_s=5.0 switches={switches} log_bytes=0",
        )
    ]
    verdict = judge({**rounds, "attach.txt": "\n".join(measured) + "\n"}, tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == (cause, (1,))


def test_a_gap_in_the_ranks_is_asked_for(tmp_path: Path) -> None:
    verdict = judge(pyspy({0: SYNC, 2: SYNC}), tmp_path).verdict
    assert verdict.cause == "insufficient-evidence"
    assert "ranks 1)" in verdict.explanation or "rank 1" in verdict.explanation


def test_a_process_of_another_program_is_no_rank_of_the_job(tmp_path: Path) -> None:
    stranger = (
        "Process 999: /usr/bin/python3 prepare_data.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        'Thread 999 (idle): "MainThread"\n'
    ) + "".join(f"    {frame}\n" for frame in f"{LOADER} < {TRAIN}".split(" < "))
    files = pyspy(others({}, SYNC))
    named = judge({**files, "prepare.txt": stranger}, tmp_path).verdict
    assert (named.cause, named.ranks) == ("insufficient-evidence", ())
    nameless = judge({"all.txt": "".join(files.values()) + stranger}, tmp_path / "one").verdict
    assert nameless.cause == "insufficient-evidence"
    same = stranger.replace("prepare_data.py", "-u train.py")
    verdict = judge({"all.txt": "".join(files.values()) + same}, tmp_path / "two").verdict
    assert verdict.cause == "data-loading-stall"


def test_two_processes_of_one_rank_are_no_process_that_moves(tmp_path: Path) -> None:
    files = {}
    for number, stack in enumerate([SYNC, SYNC, SYNC, f"{LOADER} < {TRAIN}"]):
        (text,) = pyspy({number: stack}).values()
        files[f"rank{number // 2}.{number}.txt"] = text
    assert judge(files, tmp_path).verdict.cause != "no-fault-found"


def test_a_stack_torn_off_above_python_accuses_nobody_of_a_left_out_group(tmp_path: Path) -> None:
    setup = c10d("_new_group_with_tag", 5000) + f" < {c10d('new_group', 5400)} < {TRAIN}"
    torn = f"c10d::Work::wait (libtorch_cpu.so) < {ALL_REDUCE} < {TRAIN}"
    files = pyspy({0: setup, 1: torn})
    whole = judge(files, tmp_path / "whole").verdict
    assert (whole.cause, whole.ranks) == ("collective-skipped", (1,))
    name = next(name for name, text in files.items() if "Work::wait" in text)
    files[name] = files[name][: files[name].index("libtorch_cpu.so)") + len("libtorch_cpu.so)")] + "\n"
    assert judge(files, tmp_path / "torn").verdict.cause == "insufficient-evidence"


def test_a_rank_of_which_only_c_code_shows_is_suspect(tmp_path: Path) -> None:
    files = pyspy({0: SYNC, 1: SYNC, 2: SYNC})
    files["pyspy/rank1.txt"] = (
        "Process 41007: python -u train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        'Thread 41007 (idle): "MainThread"\n    __GI___open64 (libc.so.6)\n    _io_FileIO___init__ (libpython3.11.so.1.0)\n'
    )
    verdict = judge(files, tmp_path).verdict
    assert (verdict.cause, verdict.ranks) == ("insufficient-evidence", (1,))


def test_a_checkpoint_that_moves_is_no_proof_of_a_stall(tmp_path: Path) -> None:
    save = f"save (torch/serialization.py:900) < save_checkpoint (train.py:30) < {TRAIN}"
    first = pyspy(others({0: f"[|active] {save}"}, f"{BARRIER} < {TRAIN}"))
    moved = f"[|active] _write_item (torch/serialization.py:1100) < {save}"
    later = pyspy(others({0: moved}, f"{BARRIER} < {TRAIN}"))
    one = judge(first, tmp_path / "one").verdict
    assert one.cause == "checkpoint-stall"
    assert one.confidence > 0.8
    rounds = {f"round1/{n}": t for n, t in first.items()} | {f"round2/{n}": t for n, t in later.items()}
    assert judge(rounds, tmp_path / "two").verdict.confidence < 0.6


def test_peers_that_wait_in_several_calls_are_not_said_to_be_in_one(tmp_path: Path) -> None:
    loading = f"{LOADER} < {TRAIN}"
    alike = judge(pyspy(others({1: loading}, SYNC)), tmp_path / "alike").verdict
    assert "all_reduce" in alike.explanation
    assert "other call" not in alike.explanation
    scene = others({1: loading, 3: f"{BARRIER} < {TRAIN}"}, SYNC)
    mixed = judge(pyspy(scene), tmp_path / "mixed").verdict
    assert mixed.cause == "data-loading-stall"
    assert "and 1 other call" in mixed.explanation
