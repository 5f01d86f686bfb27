"""py-spy's JSON: one array of threads for each process, in one file."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from hangscope.parse.formats import pyspy_json
from stack_dumps import functions, parse, read, read_one


def thread(pid: int, tid: int, name: str | None, **more: object) -> dict[str, object]:
    """A thread as py-spy 0.4 prints it."""
    frames = [frame("wait", "threading.py", 327), frame("main", "train.py", 9)]
    known: dict[str, object] = {
        "pid": pid,
        "thread_id": 140623837071040,
        "thread_name": name,
        "os_thread_id": tid,
        "active": False,
    }
    return known | {"owns_gil": False, "frames": frames, "process_info": None} | more


def frame(name: str, file: str, line: int, **more: object) -> dict[str, object]:
    """A frame as py-spy 0.4 prints it."""
    known: dict[str, object] = {
        "name": name,
        "filename": f"/workspace/{file}",
        "module": None,
        "short_filename": file,
        "line": line,
    }
    return known | {"locals": None, "is_entry": True, "is_shim_entry": False} | more


def dump(*threads: dict[str, object]) -> str:
    return json.dumps(threads, indent=2) + "\n"


def test_threads_and_frames() -> None:
    native = frame("f(int)", "x.cpp", 0, module="/lib/libtorch.so", filename="x.cpp")
    variables = frame("g", "train.py", 3, locals=[{"name": "rank", "addr": 1, "arg": True, "repr": "5"}])
    text = dump(thread(77, 80, "wk0"), thread(77, 77, None, active=True, owns_gil=True, frames=[native, variables]))
    found = read_one(text, "rank3.json")
    assert (found.tool, found.pid, found.line.pid, found.values) == ("py-spy", 77, 77, {"rank": "5"})
    assert (found.line.rank, found.line.rank_source, found.line.number) == (3, "file-name", 2)
    worker, main = found.threads
    assert (worker.thread, worker.name, worker.activity, worker.gil) == ("80", "wk0", "idle", False)
    assert (main.thread, main.name, main.activity, main.gil) == ("77", "", "active", True)
    assert [(f.function, f.file, f.line, f.native) for f in main.frames] == [
        ("f(int)", "x.cpp", None, True),
        ("g", "/workspace/train.py", 3, False),
    ]
    lines = text.splitlines()
    assert ['"name": "f(int)"' in lines[f.at - 1] for f in main.frames if f.at] == [True, False]
    assert '"name": "g"' in lines[(main.frames[1].at or 0) - 1]


def test_several_arrays() -> None:
    text = dump(thread(77, 77, "MainThread")) + dump(thread(78, 78, "MainThread"), thread(78, 79, "a"))
    source = parse(text, "dumps.json")
    assert [(found.pid, len(found.threads)) for found in source.dumps] == [(77, 1), (78, 2)]
    assert {writer.key.pid for writer in source.writers} == {77, 78}
    assert source.record.error is None


def test_a_cut_file_keeps_what_is_whole() -> None:
    text = dump(thread(77, 77, "MainThread"), thread(77, 78, "a"))
    source = parse(text[: text.rindex('"owns_gil"')], "dumps.json")
    assert [len(found.threads) for found in source.dumps] == [1]
    assert source.record.error == "the JSON is cut off"


def test_ids_of_macs() -> None:
    [found] = read(dump(thread(77, 1, "a", os_thread_id=None, thread_id=255)), "a.json")
    assert found.threads[0].thread == "0xff"


def test_what_is_missing_or_of_another_type() -> None:
    odd = thread(77, 1, "a", frames=[{"name": 3, "line": "x", "locals": [1, {"name": None}]}, 4], thread_name=7)
    [found] = read(dump(odd), "a.json")
    assert functions(found) == [[""]]
    assert not pyspy_json.recognizes(b'[{"frames": []}]')
    assert not pyspy_json.recognizes(b'{"entries": []}')


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["pid", "frames", "name", "locals", "thread_id", "line"]), inner, max_size=4
            )
        ),
        max_leaves=20,
    ),
    st.integers(0, 400),
)
def test_nothing_fails(value: object, cut: int) -> None:
    text = json.dumps([value, {"frames": [value], "pid": value}], indent=2)
    for data in (text, text[:cut]):
        pyspy_json.read("a.json", io.BytesIO(data.encode()), 0)


def test_offsets_are_those_of_the_lines() -> None:
    text = "é\n" + json.dumps([thread(77, 77, "MainThread"), thread(78, 78, "zwölf")], indent=2, ensure_ascii=False)
    begins = [0, *(at + 1 for at, byte in enumerate(text.encode()) if byte == ord("\n"))]
    source = pyspy_json.read("a.json", io.BytesIO(text.encode()), 0)
    assert [dump.pid for dump in source.dumps] == [77, 78]
    for one in source.dumps:
        assert one.line.offset == begins[one.line.number - 1]
