"""Exceptions come out of traceback lines whole, in every shape that logs give them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.model import Line
from hangscope.parse.tracebacks import ExceptionRecord, Frame, TracebackAssembler, is_exception_line

PLAIN = """\
Traceback (most recent call last):
  File "/workspace/train.py", line 35, in <module>
    main()
  File "/workspace/train.py", line 25, in main
    loss = loss_fn(logits, labels)
           ^^^^^^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/torch/nn/functional.py", line 3555, in cross_entropy
    return torch._C._nn.cross_entropy_loss(
ValueError: Expected input batch_size (8) to match target batch_size (6).
"""


def assemble(text: str, *, rank: int | None = None) -> list[ExceptionRecord]:
    """All exceptions of one writer."""
    assembler = TracebackAssembler()
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        source = "rank-prefix" if rank is not None else ""
        found.append(assembler.feed(Line("job.log", number, 0, line, line, rank=rank, rank_source=source)))
    found.append(assembler.flush())
    return [record for record in found if record is not None]


def tagged(text: str, rank: int) -> str:
    """As torch's hook for uncaught exceptions prints it."""
    return "\n".join(f"[rank{rank}]: {line}" if line else "" for line in text.splitlines())


def test_a_plain_traceback() -> None:
    [record] = assemble("step 3\n" + PLAIN + "step 4\n")
    assert record.type == "ValueError"
    assert record.message == "Expected input batch_size (8) to match target batch_size (6)."
    assert [frame.function for frame in record.frames] == ["<module>", "main", "cross_entropy"]
    assert record.user_frame == Frame("/workspace/train.py", 25, "main", "loss = loss_fn(logits, labels)")
    assert (record.in_function, record.chain, record.relation) == ("cross_entropy", 0, "")
    assert (record.first_line.number, record.line.number, record.damaged) == (2, 10, False)


def test_rank_tags_are_no_part_of_it() -> None:
    [record] = assemble(tagged(PLAIN, 2))
    assert (record.type, record.damaged) == ("ValueError", False)
    assert str(record.user_frame) == "/workspace/train.py:25 main"


def test_output_that_follows_is_not_the_message() -> None:
    [record] = assemble(PLAIN + "step 4 loss 0.5\n")
    assert "step 4" not in record.message


def test_an_exception_raised_while_handling_another() -> None:
    text = (
        PLAIN
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + PLAIN.replace("ValueError", "pkg.mod.SaveError")
    )
    first, second = assemble(text)
    assert (first.superseded, first.chain, second.chain) == (True, 0, 1)
    assert (second.type, second.relation, second.superseded) == ("pkg.mod.SaveError", "context", False)


def test_an_exception_raised_from_another() -> None:
    cause = "\nThe above exception was the direct cause of the following exception:\n\n"
    first, second = assemble(tagged(PLAIN + cause + PLAIN, 0))
    assert (first.superseded, second.relation) == (True, "cause")


def test_a_dataloader_quotes_its_worker() -> None:
    text = PLAIN.replace("ValueError: E", "KeyError: Caught KeyError in DataLoader worker process 0.\nOriginal ")
    text = text.split("Original")[0] + "Original " + PLAIN.replace("ValueError: Expected", "KeyError: 'x'")
    outer, inner = assemble(tagged(text, 1))
    assert (outer.message, outer.superseded) == ("Caught KeyError in DataLoader worker process 0.", True)
    assert (inner.relation, inner.chain, inner.type) == ("original", 1, "KeyError")


def test_spawn_quotes_its_child() -> None:
    text = (
        PLAIN.split("ValueError", maxsplit=1)[0]
        + "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\n"
        + PLAIN
    )
    wrapper, inner = assemble(text)
    assert wrapper.type.endswith("ProcessRaisedException")
    assert (wrapper.superseded, inner.type, inner.relation) == (True, "ValueError", "original")


def test_an_exception_group() -> None:
    text = """\
  + Exception Group Traceback (most recent call last):
  |   File "/workspace/a.py", line 3, in <module>
  |     main()
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/workspace/a.py", line 9, in one
    |     raise ValueError("1")
    | ValueError: 1
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/workspace/a.py", line 12, in two
    |     raise TypeError("2")
    | TypeError: 2
    +------------------------------------
"""
    group, one, two = assemble(text)
    assert (group.type, group.superseded) == ("ExceptionGroup", True)
    assert [(r.type, r.message, r.relation, r.in_function) for r in (one, two)] == [
        ("ValueError", "1", "group", "one"),
        ("TypeError", "2", "group", "two"),
    ]


def test_messages_of_several_lines() -> None:
    cuda = (
        PLAIN.split("ValueError", maxsplit=1)[0]
        + """\
RuntimeError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
step 5
"""
    )
    [record] = assemble(cuda)
    assert len(record.message.splitlines()) == 3
    nccl = (
        PLAIN.split("ValueError", maxsplit=1)[0]
        + """\
torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, unhandled system error, NCCL version 2.21.5
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
Error while creating shared memory segment /dev/shm/nccl-1YsMbG (size 7340384)
"""
    )
    [record] = assemble(nccl)
    assert record.message.endswith("(size 7340384)")


def test_recursion_and_old_python() -> None:
    text = """\
Traceback (most recent call last):
  File "a.py", line 3, in f
    f()
  File "a.py", line 3, in f
    f()
  [Previous line repeated 996 more times]
RecursionError: maximum recursion depth exceeded
"""
    [record] = assemble(text)
    assert (record.type, len(record.frames), record.damaged) == ("RecursionError", 2, False)


def test_a_capitalized_name_is_believed_when_the_code_raises_it() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    raise Preempt("now")\nPreempt: now\n'
    [record] = assemble(text)
    assert (record.type, record.message) == ("Preempt", "now")
    assert assemble(text.replace("raise Preempt", "print")) == []


def test_lost_indentation_and_blank_lines_between() -> None:
    text = "\n\n".join(line.strip() for line in PLAIN.splitlines()) + "\n"
    [record] = assemble(text)
    assert (record.type, len(record.frames)) == ("ValueError", 3)
    assert record.user_frame is not None
    assert record.user_frame.code == "loss = loss_fn(logits, labels)"


def test_an_unknown_prefix_of_one_shape() -> None:
    text = "\n".join(f"ERROR 10-16 13:24:{39 + i} engine.py:157] {line}" for i, line in enumerate(PLAIN.splitlines()))
    [record] = assemble(text)
    assert (record.type, len(record.frames), record.damaged) == ("ValueError", 3, False)


def test_a_table_that_quotes_a_traceback() -> None:
    lines = PLAIN.splitlines()
    text = "\n".join(
        ["  error_file: /tmp/error.json", f"  traceback : {lines[0]}", *(f"  {line}" for line in lines[1:])]
    )
    [record] = assemble(text)
    assert (record.type, len(record.frames)) == ("ValueError", 3)


def test_cut_off_at_the_beginning() -> None:
    [record] = assemble("\n".join(PLAIN.splitlines()[3:]))
    assert (record.type, len(record.frames), record.damaged) == ("ValueError", 2, True)
    [bare] = assemble("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    assert (bare.frames, bare.damaged, bare.user_frame) == ((), True, None)


def test_cut_off_at_the_end() -> None:
    assert assemble("\n".join(PLAIN.splitlines()[:-1])) == []


def test_a_traceback_that_never_ends_is_given_up() -> None:
    text = "\n".join(PLAIN.splitlines()[:-1]) + "\n" + "step 1 loss 0.5\n" * 60 + PLAIN
    records = assemble(text)
    assert [(r.type, len(r.frames), r.damaged) for r in records] == [("ValueError", 3, False)]


def test_two_ranks_in_one_stream_are_marked() -> None:
    both = [line for pair in zip(PLAIN.splitlines(), PLAIN.splitlines(), strict=True) for line in pair]
    records = assemble("\n".join(both))
    assert [r.type for r in records] == ["ValueError", "ValueError"]
    assert all(record.damaged for record in records)


def test_lines_that_an_80_column_terminal_broke() -> None:
    text = """\
Traceback (most recent call last):
  File
"/usr/local/lib/python3.12/dist-packages/torch/distributed/distributed_c10d.py",
line 1831, in init_process_group
    store, rank, world_size = next(rendezvous_iterator)
torch.distributed.DistStoreError: Timed out after 601 seconds waiting for
clients. 1/2 clients joined.
"""
    [record] = assemble(text)
    assert record.in_function == "init_process_group"
    assert record.message == "Timed out after 601 seconds waiting for\nclients. 1/2 clients joined."


def test_what_the_interpreter_ignores() -> None:
    ignored = "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\n"
    first, second = assemble(ignored + PLAIN + ignored + PLAIN)
    assert (first.relation, second.relation) == ("ignored", "ignored")
    [logged] = assemble("--- Logging error ---\n" + PLAIN)
    assert logged.relation == "ignored"
    assert [r.relation for r in assemble(ignored + "step 3\n" + PLAIN)] == [""]


def test_what_is_no_exception() -> None:
    for line in (
        "UserWarning: This DataLoader will create 32 worker processes",
        "ncclSystemError: System call (e.g. socket, malloc) failed",
        "Error: failed to extend /dev/shm/nccl-A0kACG to 33030532 bytes",
        '  File "/workspace/train.py", line 8 in save_checkpoint',
        "the run ended without Error",
    ):
        assert assemble(line) == [], line


def test_is_exception_line() -> None:
    found = is_exception_line("[rank1]: torch.OutOfMemoryError: CUDA out of memory.")
    assert found is not None
    assert found["type"] == "torch.OutOfMemoryError"
    assert is_exception_line("DeprecationWarning: x") is None


TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,12}", fullmatch=True)


@given(
    frames=st.lists(st.tuples(NAMES, st.integers(1, 9999), NAMES), min_size=1, max_size=8),
    name=st.from_regex(r"(?:[a-z]+\.){0,2}[A-Z][a-z]{0,8}Error", fullmatch=True),
    message=TEXT.filter(lambda text: text == text.strip() and "Traceback" not in text),
    rank=st.none() | st.integers(0, 99),
)
def test_every_generated_traceback_comes_back(
    frames: list[tuple[str, int, str]], name: str, message: str, rank: int | None
) -> None:
    lines = ["Traceback (most recent call last):"]
    for file, number, function in frames:
        lines += [f'  File "/w/{file}.py", line {number}, in {function}', f"    {function}()"]
    lines.append(f"{name}: {message}".rstrip() if message else name)
    text = "\n".join(lines)
    [record] = assemble(tagged(text, rank) if rank is not None else text)
    assert (record.type, record.message) == (name, message)
    assert [(f.file, f.line, f.function) for f in record.frames] == [(f"/w/{a}.py", b, c) for a, b, c in frames]
    assert not record.damaged


@given(st.lists(st.one_of(TEXT, st.sampled_from(PLAIN.splitlines()), st.just("  + Exception Group " + PLAIN[:35]))))
def test_no_input_breaks_it(lines: list[str]) -> None:
    for record in assemble("\n".join(lines)):
        assert record.type
        assert record.line.number >= record.first_line.number


@pytest.mark.parametrize("line", ["^~" * 30_000 + "x", 'File "a", line 1, in ' + " " * 60_000 + "\0"])
def test_longest_hostile_line_takes_no_time_to_speak_of(line: str) -> None:
    start = time.process_time()
    assemble("Traceback (most recent call last):\n" + '  File "a.py", line 1, in x\n' + line + "\n" + line)
    assert time.process_time() - start < 5
