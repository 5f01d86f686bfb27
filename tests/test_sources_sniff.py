"""Sniffing: content decides what a file is, never its name."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import pickle
import tarfile
import zipfile

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hangscope.sources.sniff import Kind, compression, describe_error, is_tar, sniff, sniff_bytes


def tar_bytes(form: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        info = tarfile.TarInfo("rank0.log")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    return stream.getvalue()


def zip_bytes() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("rank0.log", "abc")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", Kind.EMPTY),
        (b"node01:1:1 [0] NCCL INFO hello\n", Kind.TEXT),
        (b"[rank0]: Traceback (most recent call last):\n", Kind.TEXT),
        (b"{torn text in braces}\n", Kind.TEXT),
        (b"DataLoader worker (pid 7) is killed by signal: Bus error. \x00\n", Kind.TEXT),
        ("\ufeffhello".encode("utf-16-le"), Kind.TEXT),
        ("hello world, hello\n".encode("utf-16-le"), Kind.TEXT),
        ("训练已停止\n".encode("gb18030"), Kind.TEXT),
        (b"\x1b[32mProcess 1\x1b[0m\r\n", Kind.TEXT),
        (b'{"log":"hello\\n","stream":"stdout","time":"2026-01-31T12:00:00Z"}\n', Kind.TEXT),
        (b'{"message": "hello", "level": "info"}\n{"message": "bye"}\n', Kind.TEXT),
        (b'{"version": "2.10", "entries": []}', Kind.JSON),
        (b'{\n  "nccl_version": "2.28.9",\n  "communicators": [\n', Kind.JSON),
        (b'{"comm_lib_version": "", "entries": [{"collective_seq_id": 1, ', Kind.JSON),
        (b'{"message": {"message": "ValueError: x", "extraInfo": {}}}', Kind.JSON),
        (b'[{"pid": 1}]', Kind.JSON),
        (pickle.dumps({"version": "2.10"}, protocol=2), Kind.PICKLE),
        (pickle.dumps({"version": "2.10"}, protocol=4), Kind.PICKLE),
        (gzip.compress(b"abc", mtime=0), Kind.COMPRESSED),
        (bz2.compress(b"abc"), Kind.COMPRESSED),
        (lzma.compress(b"abc"), Kind.COMPRESSED),
        (zstandard.compress(b"abc"), Kind.COMPRESSED),
        (tar_bytes(), Kind.ARCHIVE),
        (tar_bytes(tarfile.GNU_FORMAT), Kind.ARCHIVE),
        (zip_bytes(), Kind.ARCHIVE),
        (b"\x7fELF\x02\x01\x01" + bytes(60), Kind.BINARY),
        (b"\x89PNG\r\n\x1a\n", Kind.BINARY),
        (bytes(range(32)) * 20, Kind.BINARY),
        (bytes(500), Kind.BINARY),
    ],
)
def test_kinds(data: bytes, kind: Kind) -> None:
    assert sniff_bytes(data[:8192]) is kind


def test_the_oldest_tar_format_is_known_by_its_checksum() -> None:
    data = bytearray(tar_bytes())
    data[257:265] = bytes(8)
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    assert is_tar(bytes(data))
    data[0] ^= 1
    assert not is_tar(bytes(data))


def test_text_that_begins_like_bzip2_is_text() -> None:
    assert compression(b"BZh is how this log begins\n") is None


def test_what_cannot_be_read_says_so_in_words() -> None:
    assert describe_error(b"\x7fELF") == "not a log: an ELF program, library or core dump"
    assert describe_error(bytes(range(32)) * 20) == "not a log: binary data"
    assert describe_error(b"hello") is None


def test_sniffing_consumes_nothing() -> None:
    sniffed = sniff(io.BytesIO(b"hello\nworld\n"))
    assert sniffed.kind is Kind.TEXT
    assert sniffed.error is None
    assert sniffed.stream.read() == b"hello\nworld\n"


@given(st.binary(max_size=700))
def test_any_bytes_have_a_kind(data: bytes) -> None:
    assert sniff_bytes(data) in Kind


@given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=4))
def test_an_indented_object_is_a_document(value: dict[str, int]) -> None:
    assert sniff_bytes(json.dumps(value, indent=1).encode()) is Kind.JSON


def test_random_bytes_are_binary_although_few_of_them_are_controls() -> None:
    head = b"".join(hashlib.sha256(bytes([i])).digest() for i in range(160))

    assert sniff_bytes(head) is Kind.BINARY


def test_text_in_another_code_page_is_text() -> None:
    assert sniff_bytes("训练任务失败: 节点\n".encode("gbk") * 40) is Kind.TEXT
