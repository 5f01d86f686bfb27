"""Discovery: every place where logs lie gives inputs, and whatever cannot be read gives a record."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pickle
import socket
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hangscope.errors import InputError
from hangscope.sources.container import ContainerError, Limits, decompressed
from hangscope.sources.discover import STDIN_NAME, Input, discover
from hangscope.sources.sniff import Kind
from hangscope.sources.streams import buffered

LOG = b"node01:1:1 [0] NCCL INFO hello\n"
SMALL = Limits(members=5, total_bytes=1 << 20, ratio=10, ratio_floor=1 << 16)


def read(item: Input) -> bytes:
    with item.open() as stream:
        return stream.read()


def found(*paths: Path | str, limits: Limits | None = None) -> dict[str, bytes]:
    inputs, records = discover([str(path) for path in paths], limits)
    assert records == []
    return {item.name: read(item) for item in inputs}


def errors(*paths: Path | str, limits: Limits | None = None) -> dict[str, str | None]:
    return {record.file: record.error for record in discover([str(path) for path in paths], limits)[1]}


def write(path: Path, data: bytes = LOG) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def make_tar(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


class TestFilesAndFolders:
    def test_a_file_is_named_by_its_base_name(self, tmp_path: Path) -> None:
        assert found(write(tmp_path / "deep" / "rank0.log")) == {"rank0.log": LOG}

    def test_a_folder_is_walked_in_natural_order_and_empty_files_are_evidence(self, tmp_path: Path) -> None:
        for name in ("rank10.log", "rank2.log", "attempt_0/0/stderr.log"):
            write(tmp_path / "logs" / name)
        write(tmp_path / "logs" / "rank3.log", b"")
        inputs, _ = discover([str(tmp_path / "logs")])
        assert [item.name for item in inputs] == ["attempt_0/0/stderr.log", "rank2.log", "rank3.log", "rank10.log"]
        assert [item.kind for item in inputs] == [Kind.TEXT, Kind.TEXT, Kind.EMPTY, Kind.TEXT]

    def test_hidden_files_stay_hidden_unless_named(self, tmp_path: Path) -> None:
        write(tmp_path / "logs" / "rank0.log")
        hidden = write(tmp_path / "logs" / ".rank0.log.swp")
        write(tmp_path / "logs" / ".git" / "config")
        assert list(found(tmp_path / "logs")) == ["rank0.log"]
        assert list(found(hidden)) == [".rank0.log.swp"]

    def test_a_glob_that_the_shell_left_alone(self, tmp_path: Path) -> None:
        for name in ("rank0.log", "rank1.log", "notes.txt"):
            write(tmp_path / name)
        assert list(found(tmp_path / "rank*.log")) == ["rank0.log", "rank1.log"]

    def test_equal_names_of_two_paths_are_told_apart(self, tmp_path: Path) -> None:
        for folder in ("a/logs", "b/logs", "node02"):
            write(tmp_path / folder / "rank0.log", folder.encode())
        assert found(tmp_path / "a/logs", tmp_path / "node02") == {
            "rank0.log": b"a/logs",
            "node02/rank0.log": b"node02",
        }
        third = found(tmp_path / "a/logs", tmp_path / "node02", tmp_path / "b/logs")
        assert sorted(third.values()) == [b"a/logs", b"b/logs", b"node02"]
        one, other = tmp_path / "a/logs/rank0.log", tmp_path / "b/logs/rank0.log"
        assert list(found(one, other)) == ["rank0.log", str(other)]

    def test_a_file_reached_twice_is_read_once(self, tmp_path: Path) -> None:
        write(tmp_path / "logs" / "rank0.log")
        (tmp_path / "logs" / "a-current.log").symlink_to("rank0.log")
        assert list(found(tmp_path / "logs", tmp_path / "logs" / "rank0.log")) == ["rank0.log"]

    def test_links_in_a_circle_end(self, tmp_path: Path) -> None:
        write(tmp_path / "logs" / "rank0.log")
        (tmp_path / "logs" / "again").symlink_to(tmp_path / "logs")
        (tmp_path / "logs" / "self").symlink_to("self")
        inputs, records = discover([str(tmp_path / "logs")])
        assert [item.name for item in inputs] == ["rank0.log"]
        assert [record.file for record in records] == ["self"]

    @pytest.mark.parametrize("data", [b"\x7fELF" + bytes(200), bytes(range(32)) * 40])
    def test_binary_files_are_told_not_read(self, tmp_path: Path, data: bytes) -> None:
        write(tmp_path / "core.123", data)
        write(tmp_path / "rank0.log")
        assert errors(tmp_path)["core.123"] in {
            "not a log: an ELF program, library or core dump",
            "not a log: binary data",
        }

    def test_only_binary_files_are_still_an_answer(self, tmp_path: Path) -> None:
        inputs, records = discover([str(write(tmp_path / "core", b"\x7fELF"))])
        assert inputs == []
        assert records[0].kind == "binary"

    def test_special_files_do_not_block(self, tmp_path: Path) -> None:
        write(tmp_path / "rank0.log")
        os.mkfifo(tmp_path / "pipe")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.fsencode(os.path.relpath(tmp_path / "socket")))
            told = errors(tmp_path)
        assert told == {"pipe": "not a file but a named pipe", "socket": "not a file but a socket"}

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
    def test_an_unreadable_file_is_one_record(self, tmp_path: Path) -> None:
        write(tmp_path / "rank0.log")
        write(tmp_path / "rank1.log").chmod(0)
        assert errors(tmp_path) == {"rank1.log": "cannot be read: Permission denied"}

    def test_a_missing_path_beside_a_good_one_is_a_record(self, tmp_path: Path) -> None:
        inputs, records = discover(
            [str(write(tmp_path / "rank0.log")), str(tmp_path / "rank1.log"), str(tmp_path / "*.no")]
        )
        assert len(inputs) == 1
        assert [record.error for record in records] == ["no such file or folder", "no file matches"]

    def test_nothing_readable_at_all_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such file or folder"):
            discover([str(tmp_path / "nowhere")])
        with pytest.raises(InputError, match="nothing to read"):
            discover([str(tmp_path)])
        with pytest.raises(InputError, match="no path"):
            discover([])

    def test_an_input_travels_to_another_process(self, tmp_path: Path) -> None:
        make_tar(tmp_path / "b.tgz", {"rank0.log": LOG}, "w:gz")
        for item in discover([str(tmp_path)])[0]:
            assert read(pickle.loads(pickle.dumps(item))) == LOG  # noqa: S301 (our own)


class TestStandardInput:
    @pytest.mark.parametrize("pack", [bytes, gzip.compress])
    def test_it_is_an_input_even_when_compressed(
        self, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(LOG))))
        (item,), _ = discover(["-", "-"])
        assert (item.name, item.rereadable, item.kind) == (STDIN_NAME, False, None)
        assert read(item) == LOG
        assert not sys.stdin.closed

    def test_a_shells_substitution_is_read(self) -> None:
        reading, writing = os.pipe()
        os.write(writing, LOG)
        os.close(writing)
        try:
            (item,), _ = discover([f"/dev/fd/{reading}"])
            assert read(item) == LOG
        finally:
            os.close(reading)


class TestCompressed:
    @pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
    def test_every_compression_by_magic_whatever_the_name(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        write(tmp_path / "rank0.log", pack(LOG * 9000))
        (item,), _ = discover([str(tmp_path)])
        assert item.kind is Kind.TEXT
        assert read(item) == LOG * 9000

    def test_rotated_pieces_joined_in_one_file(self, tmp_path: Path) -> None:
        assert found(write(tmp_path / "a.gz", gzip.compress(LOG) + gzip.compress(LOG))) == {"a.gz": LOG * 2}
        assert found(write(tmp_path / "a.zst", zstandard.compress(LOG) * 2)) == {"a.zst": LOG * 2}

    def test_a_name_that_lies_is_no_matter(self, tmp_path: Path) -> None:
        assert found(write(tmp_path / "rank0.log.gz")) == {"rank0.log.gz": LOG}

    @pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
    def test_a_cut_file_gives_what_there_is(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        noise = b"".join(b"%d %d\n" % (number, number * 7919 % 10007) for number in range(20_000))
        packed = pack(noise)
        (item,), _ = discover([str(write(tmp_path / "a", packed[: len(packed) // 2]))])
        assert noise.startswith(read(item))

    def test_damage_is_an_error_of_that_file(self, tmp_path: Path) -> None:
        packed = bytearray(gzip.compress(b"".join(b"%d\n" % number for number in range(90_000))))
        packed[40:60] = bytes(20)
        write(tmp_path / "good.log")
        write(tmp_path / "bad.gz", bytes(packed))
        inputs, records = discover([str(tmp_path)])
        if records:
            assert "damaged" in str(records[0].error)
        else:
            with pytest.raises(ContainerError, match="damaged"):
                [read(item) for item in inputs]

    def test_a_bomb_stops(self, tmp_path: Path) -> None:
        limits = Limits(ratio=10, ratio_floor=1 << 20)
        (item,), _ = discover([str(write(tmp_path / "a.gz", gzip.compress(b"x" * (1 << 22))))], limits)
        with pytest.raises(ContainerError, match="bomb"):
            read(item)

    def test_three_layers_are_refused(self, tmp_path: Path) -> None:
        data = gzip.compress(gzip.compress(gzip.compress(LOG)))
        assert errors(write(tmp_path / "a.gz", data)) == {"a.gz": "compressed more than once: unpack it first"}

    @given(
        st.binary(max_size=300),
        st.sampled_from([b"", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh91AY&SY"]),
    )
    def test_any_bytes_end_in_data_or_a_container_error(self, data: bytes, magic: bytes) -> None:
        source = io.BytesIO(magic + data)
        try:
            decompressed(buffered(source.read, source.close), len(data), SMALL).read()
        except ContainerError:
            return


class TestArchives:
    FILES: ClassVar = {"logs/rank0.log": LOG, "logs/rank1.log": b"", "logs/deep/node01/dmesg.txt": b"[1.000000] x\n"}

    @pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
    def test_tar(self, tmp_path: Path, mode: str) -> None:
        path = make_tar(tmp_path / "bundle", self.FILES, mode)
        assert found(path) == {f"bundle/{name}": data for name, data in self.FILES.items()}

    def test_tar_zst_and_zip(self, tmp_path: Path) -> None:
        plain = make_tar(tmp_path / "plain.tar", self.FILES).read_bytes()
        assert len(found(write(tmp_path / "b.tar.zst", zstandard.compress(plain)))) == 3
        assert found(make_zip(tmp_path / "b.zip", self.FILES)) == {
            f"b.zip/{name}": data for name, data in self.FILES.items()
        }

    @pytest.mark.parametrize("make", [make_tar, make_zip])
    def test_members_open_in_any_order_and_at_once(
        self, tmp_path: Path, make: Callable[[Path, dict[str, bytes]], Path]
    ) -> None:
        files = {f"rank{number}.log": b"%d\n" % number * 50_000 for number in range(6)}
        inputs, _ = discover([str(make(tmp_path / "b", files))])
        for number in (0, 1, 3, 2, 5, 0, 4):
            assert read(inputs[number]) == files[f"rank{number}.log"]
        with inputs[1].open() as one, inputs[4].open() as four, inputs[2].open() as two:
            assert (one.read(2), four.read(2), two.read(2)) == (b"1\n", b"4\n", b"2\n")
            assert one.read() + four.read() == files["rank1.log"][2:] + files["rank4.log"][2:]

    def test_compressed_members_are_opened(self, tmp_path: Path) -> None:
        path = make_tar(tmp_path / "b.tar", {"rank0.log.gz": gzip.compress(LOG)})
        assert found(path) == {"b.tar/rank0.log.gz": LOG}

    def test_names_never_leave_the_archive(self, tmp_path: Path) -> None:
        path = make_tar(tmp_path / "b.tar", {"../../etc/passwd": LOG, "/abs/rank0.log": LOG, "a/../rank1.log": LOG})
        assert list(found(path)) == ["b.tar/etc/passwd", "b.tar/abs/rank0.log", "b.tar/rank1.log"]

    def test_links_devices_and_hidden_members_are_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "b.tar"
        with tarfile.open(path, "w") as tar:
            for name, kind in (("link", tarfile.SYMTYPE), ("null", tarfile.CHRTYPE), ("pipe", tarfile.FIFOTYPE)):
                info = tarfile.TarInfo(name)
                info.type = kind
                info.linkname = "/etc/passwd"
                tar.addfile(info)
            for name in ("._rank0.log", "rank0.log"):
                info = tarfile.TarInfo(name)
                info.size = len(LOG)
                tar.addfile(info, io.BytesIO(LOG))
        assert list(found(path)) == ["b.tar/rank0.log"]

    def test_an_archive_inside_an_archive_is_told(self, tmp_path: Path) -> None:
        inner = make_tar(tmp_path / "inner.tar", {"rank0.log": LOG}).read_bytes()
        path = make_tar(tmp_path / "b.tar", {"inner.tar": inner, "rank0.log": LOG})
        assert errors(path) == {"b.tar/inner.tar": "an archive inside an archive or a stream: unpack it first"}

    @pytest.mark.parametrize(
        ("files", "text"),
        [
            ({f"{number}.log": b"x" for number in range(9)}, "more than 5 files"),
            ({"big.log": b"x" * (1 << 21)}, "bomb"),
        ],
    )
    @pytest.mark.parametrize("make", [make_tar, make_zip])
    def test_hostile_archives_become_one_record(
        self, tmp_path: Path, files: dict[str, bytes], text: str, make: Callable[[Path, dict[str, bytes]], Path]
    ) -> None:
        write(tmp_path / "rank0.log")
        make(tmp_path / "b", files)
        if make is make_tar:
            write(tmp_path / "b", gzip.compress((tmp_path / "b").read_bytes()))
        inputs, records = discover([str(tmp_path)], SMALL)
        assert [item.name for item in inputs] == ["rank0.log"]
        assert [record.file for record in records] == ["b"]
        assert text in str(records[0].error)

    @pytest.mark.parametrize("keep", [300, 700, 1500])
    def test_cut_archives_are_records_or_give_their_beginning(self, tmp_path: Path, keep: int) -> None:
        write(tmp_path / "rank0.log")
        for name, make in (("b.tar", make_tar), ("b.zip", make_zip)):
            make(tmp_path / name, {"a.log": os.urandom(1000), "b.log": LOG})
            write(tmp_path / name, (tmp_path / name).read_bytes()[:keep])
        inputs, _ = discover([str(tmp_path)])
        assert "rank0.log" in {item.name for item in inputs}
        for item in inputs:
            try:
                read(item)
            except ContainerError as error:
                assert "damaged" in str(error)  # noqa: PT017 (an error is allowed, not demanded)

    def test_a_checkpoint_is_no_archive_of_logs(self, tmp_path: Path) -> None:
        path = make_zip(tmp_path / "model.pt", {"model/data.pkl": b"x", "model/version": b"3", "model/data/0": b"y"})
        assert errors(write(tmp_path / "a.log"), path) == {"model.pt": "not a log: a PyTorch checkpoint"}

    def test_reading_all_members_passes_a_compressed_tar_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = {f"rank{number}.log": LOG for number in range(20)}
        inputs, _ = discover([str(make_tar(tmp_path / "b.tgz", files, "w:gz"))])
        opened: list[str] = []
        original = tarfile.open

        def counting(*args: object, **named: object) -> tarfile.TarFile:
            opened.append("once more")
            return original(*args, **named)  # type: ignore[call-overload, no-any-return]

        monkeypatch.setattr(tarfile, "open", counting)
        assert [read(item) for item in inputs] == [LOG] * 20
        assert len(opened) == 1


def test_closed_standard_input_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    item = discover(["-"])[0][0]
    with pytest.raises(ContainerError, match="standard input is closed"):
        item.open()
