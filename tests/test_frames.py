"""Every pattern of grammars/frames.toml by its own samples, and what the table promises about itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hangscope.errors import GrammarError
from hangscope.grammar.frames import STATES, Pattern, load_frame_table, load_frames
from hangscope.model import Frame, Line, ThreadStack
from stack_samples import frame, thread

TABLE = load_frames()
C10D = "torch/distributed/distributed_c10d.py"
LOADER = "torch/utils/data/dataloader.py"
FETCH = "torch/utils/data/_utils/fetch.py"
MATCHES = [(pattern, sample) for pattern in TABLE.patterns for sample in pattern.match]
NO_MATCHES = [(pattern, sample) for pattern in TABLE.patterns for sample in pattern.no_match]


@pytest.mark.parametrize(("pattern", "sample"), MATCHES, ids=[f"{p.id}-{i}" for i, (p, _) in enumerate(MATCHES)])
def test_a_pattern_decides_its_samples(pattern: Pattern, sample: str) -> None:
    reading = TABLE.read(thread(sample))
    assert (reading.pattern, reading.state) == (pattern.id, pattern.state)


@pytest.mark.parametrize(("pattern", "sample"), NO_MATCHES, ids=[f"{p.id}-{i}" for i, (p, _) in enumerate(NO_MATCHES)])
def test_a_pattern_leaves_other_stacks_alone(pattern: Pattern, sample: str) -> None:
    assert TABLE.read(thread(sample)).pattern != pattern.id


# --- the table as a whole -----------------------------------------------------------------------------------


def test_ids_are_unique_and_no_pattern_is_out_of_reach() -> None:
    ids = [pattern.id for pattern in TABLE.patterns]
    assert len(ids) == len(set(ids))


def test_every_state_that_frames_can_tell_has_a_pattern() -> None:
    by_table = {pattern.state for pattern in TABLE.patterns}
    assert STATES - by_table == {"running", "native", "unknown"}


@pytest.mark.parametrize(
    ("stack", "state", "operation"),
    [
        # the same call by old and new Python and torch, relative and absolute
        (f"all_reduce ({C10D}:1320) < main (train.py:3)", "in-collective", "all_reduce"),
        (f"all_reduce (/opt/x/{C10D}:9) < wrapper (/x/c10d_logger.py:8) < m (a.py)", "in-collective", "all_reduce"),
        (f"_all_gather_base ({C10D}:2) < f (m.py)", "in-collective", "all_gather_into_tensor"),
        (f"monitored_barrier ({C10D}:2) < f (m.py)", "in-barrier", "monitored_barrier"),
        (
            f"broadcast ({C10D}:2) < broadcast_object_list ({C10D}:3) < f (m.py)",
            "in-object-collective",
            "broadcast_object_list",
        ),
        ("work (a.py:1) < main (train.py:3)", "running", ""),
        ("read (codecs.py:3) < main (train.py:3)", "running", ""),
        # a queue below the loader is the loader's, a queue of the job's own is a queue
        (
            f"wait (threading.py) < get (queue.py) < _try_get_data ({LOADER}) < main (train.py)",
            "waiting-for-loader",
            "",
        ),
        (f"wait (threading.py) < get (queue.py) < main (train.py) < _next_data ({LOADER})", "queue-wait", ""),
        # a wait in the user's dataset is a wait, but it is the loader that stands still because of it
        (f"wait (threading.py) < fetch_one (data.py) < fetch ({FETCH}) < main (train.py)", "loading-data", ""),
        # frames of C tell what the user's line does
        ("c10d::Work::wait(std::chrono) (libtorch_cpu.so) < sync (train.py:3)", "in-collective", ""),
        ("sem_wait (libc.so.6) < PyThread_acquire_lock_timed (libpython.so) < append (train.py:3)", "lock-wait", ""),
        ("sem_wait (libc.so.6) < start_thread (libc.so.6)", "native", ""),
        ("", "unknown", ""),
    ],
)
def test_innermost_frames_decide(stack: str, state: str, operation: str) -> None:
    reading = TABLE.read(thread(stack))
    assert (reading.state, reading.operation) == (state, operation)


def test_the_frame_that_tells_is_named() -> None:
    reading = TABLE.read(thread("wait (threading.py:1) < join (threading.py:2) < main (train.py:3)"))
    assert reading.frame is not None
    assert (reading.frame.function, reading.frame.line) == ("join", 2)


_NAMES = st.sampled_from(
    [
        *("wait", "get", "all_reduce", "<module>", "Thread.run", "_bootstrap", "fetch", "main", "gloo::barrier("),
        *("", "a.b.<locals>.c"),
    ]
)
_FILES = st.sampled_from(["threading.py", C10D, "train.py", "libc.so.6", "<string>", "/x/site-packages/y.py", None, ""])
_FRAMES = st.lists(st.builds(Frame, _NAMES, _FILES, st.none() | st.integers(0, 9), st.booleans()), max_size=8)


@given(_FRAMES, st.text(max_size=8))
def test_any_stack_has_a_state(frames: list[Frame], name: str) -> None:
    stack = ThreadStack("1", name, "", None, current=False, frames=tuple(frames), line=Line("s.txt", 1, 0, "", ""))
    reading = TABLE.read(stack)
    assert reading.state in STATES
    assert reading.frame is None or reading.frame in frames


# --- whose code it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("train.py", True),
        ("./train.py", True),
        ("pkg/models/llama.py", True),
        ("/workspace/job/train.py", True),
        ("/home/me/torch_job/train.py", True),
        ("<ipython-input-3-0a1b2c3d4e5f>", True),
        ("/tmp/ipykernel_77/1234.py", True),
        ("threading.py", False),
        ("multiprocessing/queues.py", False),
        ("torch/nn/modules/module.py", False),
        ("transformers/trainer.py", False),
        ("megatron/core/pipeline_parallel/schedules.py", False),
        ("/usr/lib/python3.11/threading.py", False),
        ("/usr/lib/python3/dist-packages/x.py", False),
        ("/workspace/venv/lib/python3.11/site-packages/accelerate/state.py", False),
        ("/opt/pytorch/torch/distributed/distributed_c10d.py", False),
        ("/root/.local/share/uv/python/cpython-3.13t/lib/python3.13t/threading.py", False),
        ("/tmp/torchinductor_root/ab/cabc.py", False),
        ("<frozen runpy>", False),
        ("<string>", False),
        ("<eval_with_key>.12", False),
        ("torchrun", False),
        ("/usr/local/bin/torchrun", False),
        ("???", False),
        (None, False),
    ],
)
def test_own_code(file: str | None, own: bool) -> None:
    assert TABLE.own.is_own(Frame("f", file, 3)) == own


def test_a_script_named_like_a_module_of_python_is_own_code() -> None:
    frames = thread("step (profile.py:4) < <module> (profile.py:9)").frames
    assert TABLE.own.innermost(frames) == (frames[0], True)
    assert TABLE.own.innermost(thread("run (profile.py:4) < main (train.py:9)").frames)[0] == frame("main (train.py:9)")


def test_without_own_code_the_library_above_torch_is_better_than_nothing() -> None:
    stack = thread(
        "forward (torch/nn/modules/linear.py:1)"
        " < training_step (/v/lib/python3.11/site-packages/transformers/trainer.py:2)"
        " < _run_code (<frozen runpy>:88)"
    )
    found, own = TABLE.own.innermost(stack.frames)
    assert found is not None
    assert (found.function, own) == ("training_step", False)


# --- what is wrong with a table -----------------------------------------------------------------------------

_GOOD = """
[[pattern]]
id = "a"
state = "lock-wait"
about = "a lock"
functions = ["acquire"]
match = ["acquire (x.py)"]
no_match = ["f (x.py)"]
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no"),
        ("[[pattern]", "cannot be read"),
        (f"{_GOOD}color = 1\n", "unknown key color"),
        (_GOOD.replace("lock-wait", "sleeping"), "no state 'sleeping'"),
        (_GOOD.replace('about = "a lock"\n', ""), "lacks about"),
        (_GOOD.replace('functions = ["acquire"]\n', ""), "fits every frame"),
        (_GOOD.replace('no_match = ["f (x.py)"]\n', ""), "needs one no_match"),
        (_GOOD.replace('["acquire"]', '"acquire"'), "functions has to be a list of texts"),
        (f'{_GOOD}depth = "two"\n', "depth has to be a number"),
        (f"{_GOOD}sources = ['(']\n", "sources is a wrong expression"),
        (f'{_GOOD}then = "f"\n', "then has to be a table"),
        (_GOOD + _GOOD, "two patterns have the id a"),
        (f"libraries = [1]\n{_GOOD}", "libraries has to be a list of texts"),
        (f"colors = []\n{_GOOD}", "unknown key colors"),
        (f"operations = []\n{_GOOD}", "operations"),
    ],
)
def test_a_wrong_table_is_one_clear_error(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "frames.toml"
    path.write_text(text)
    with pytest.raises(GrammarError, match=r"frames\.toml") as error:
        load_frame_table(path)
    assert says in str(error.value)


def test_a_right_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "frames.toml"
    path.write_text(_GOOD)
    assert load_frame_table(path).read(thread("acquire (x.py)")).pattern == "a"


def test_a_thousand_ranks_are_read_in_a_moment() -> None:
    between = [f"f{number} (lib/m{number}.py:{number})" for number in range(60)]
    stack = thread(" < ".join(["wait (threading.py:1)", *between, "main (t.py:1)"]))
    TABLE.read(stack)
    began = time.process_time()
    for _ in range(1000):
        TABLE.read(stack)
    assert time.process_time() - began < 3
