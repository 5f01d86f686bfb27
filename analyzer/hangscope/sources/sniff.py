"""Tells by its first bytes what a stream holds: a log, a dump, or something that is no log at all."""

from __future__ import annotations

import codecs
import enum
import io
import json
import re
from typing import BinaryIO

from hangscope.records import dataclass
from hangscope.sources.streams import buffered

SNIFF_BYTES = 8192

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
XZ = b"\xfd7zXZ\x00"
BZIP2 = b"BZh"
ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_TAR_MAGIC = b"ustar"
_TAR_MAGIC_AT = 257
_TAR_BLOCK = 512

_BINARY_MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "an ELF program, library or core dump"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"PAR1", "a Parquet file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive, unpack it first"),
    (b"Rar!", "a RAR archive, unpack it first"),
    (b"LPKSHHRH", "a binary systemd journal, export it with journalctl"),
)
_LOG_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE")
_PRINTABLE_CONTROLS = b"\t\n\r\x0b\x0c\x07\x08\x1b"
_TEXT_BYTES = bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100)) + _PRINTABLE_CONTROLS


class Kind(enum.StrEnum):
    """What a stream holds, by its content."""

    EMPTY = "empty"
    TEXT = "text"
    JSON = "json"
    PICKLE = "pickle"
    COMPRESSED = "compressed"
    ARCHIVE = "archive"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a stream holds, and the stream with nothing of it consumed.

    Attributes:
        kind: what it is.
        stream: read on from here.
        error: for kinds that cannot be analyzed, what to tell the user; else None.
    """

    kind: Kind
    stream: io.BufferedReader
    error: str | None = None


def sniff(stream: BinaryIO) -> Sniffed:
    """Looks at the beginning of a stream without consuming it."""
    peekable = stream if isinstance(stream, io.BufferedReader) else buffered(stream.read, stream.close)
    head = peekable.peek(SNIFF_BYTES)[:SNIFF_BYTES]
    return Sniffed(sniff_bytes(head), peekable, describe_error(head))


def sniff_bytes(head: bytes) -> Kind:
    """The kind of a file that begins with these bytes (give it some thousands of them)."""
    if not head:
        return Kind.EMPTY
    if compression(head) is not None:
        return Kind.COMPRESSED
    if is_archive(head):
        return Kind.ARCHIVE
    if _binary_magic(head) is not None:
        return Kind.BINARY
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Kind.TEXT
    # protocols 2 to 5; torch writes flight-recorder dumps with protocol 2 and later
    if head[0] == 0x80 and len(head) > 1 and 2 <= head[1] <= 5:
        return Kind.PICKLE
    if not _looks_like_text(head):
        return Kind.BINARY
    return Kind.JSON if _looks_like_document(head) else Kind.TEXT


def describe_error(head: bytes) -> str | None:
    """What to tell the user about a file that cannot be analyzed; None when it can."""
    kind = sniff_bytes(head)
    if kind is Kind.BINARY:
        return f"not a log: {_binary_magic(head) or 'binary data'}"
    if kind is Kind.COMPRESSED:
        return "compressed more than once: unpack it first"
    if kind is Kind.ARCHIVE:
        return "an archive inside an archive or a stream: unpack it first"
    return None


def compression(head: bytes) -> str | None:
    """Name of the compression whose magic bytes stand at the beginning."""
    if head.startswith(GZIP):
        return "gzip"
    if head.startswith(ZSTD):
        return "zstd"
    if head.startswith(XZ):
        return "xz"
    # BZh, a digit, then the magic of a block or of the empty end
    if head.startswith(BZIP2) and head[3:4].isdigit() and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bzip2"
    return None


def is_archive(head: bytes) -> bool:
    """Whether a (decompressed) file is a zip or tar archive."""
    return is_zip(head) or is_tar(head)


def is_zip(head: bytes) -> bool:
    return head.startswith(ZIP)


def is_tar(head: bytes) -> bool:
    """POSIX and GNU archives by magic; the oldest kind has none, so its header checksum decides."""
    if len(head) < _TAR_BLOCK:
        return False
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC:
        return True
    field = head[148:156].strip(b" \0")
    if not field or not re.fullmatch(rb"[0-7]+", field):
        return False
    block = head[:148] + b" " * 8 + head[156:_TAR_BLOCK]
    return sum(block) == int(field, 8)


def _binary_magic(head: bytes) -> str | None:
    return next((what for magic, what in _BINARY_MAGICS if head.startswith(magic)), None)


def _looks_like_text(head: bytes) -> bool:
    """Mostly text: some NULs and control bytes occur in real logs (torch's DataLoader line ends in a NUL)."""
    strange = len(head.translate(None, _TEXT_BYTES))
    nuls = head.count(0)
    if nuls and nuls * 10 > len(head) * 3:
        # UTF-16 without a byte order mark: every other byte is NUL, the rest is text
        halves = (head[0::2], head[1::2])
        return any(half.count(0) == 0 and not half.translate(None, _TEXT_BYTES) for half in halves)
    # random bytes: few controls, but much that is no UTF-8; text in another code page has the latter without the former
    garbled = head.decode("utf-8", "replace").count("\ufffd")
    if strange * 50 > len(head) and garbled * 10 > len(head):
        return False
    return strange * 10 <= len(head)


def _looks_like_document(head: bytes) -> bool:
    """One JSON document (a flight-recorder dump, a RAS report), not JSON-wrapped log lines."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if text.startswith(b"["):
        return re.match(rb"\[\s*(?:[\]{]|$)", text) is not None
    if not text.startswith(b"{") or not re.match(rb"\{\s*(?:[\"}]|$)", text):
        return False
    first, newline, rest = text.partition(b"\n")
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return not first.startswith(b'{"log":')
    is_line = isinstance(value, dict) and any(isinstance(value.get(key), str) for key in _LOG_KEYS)
    return not is_line and not (newline and rest.lstrip().startswith(b"{"))
