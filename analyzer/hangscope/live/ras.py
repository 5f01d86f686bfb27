"""Asks NCCL's RAS service, which a process of each host offers from NCCL 2.24 on (nccl/src/ras/client_support.cc)."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping

from hangscope.expressions import expression
from hangscope.live.sockets import Socket
from hangscope.live.targets import Target
from hangscope.records import dataclass

DEFAULT = ("localhost", 28028)
_LIMIT_S = 15.0
"""NCCL itself gathers for 5 s and waits 5 s more for those that do not answer."""

_LIMIT_BYTES = 64 << 20
_ADDRESS = expression(r"\[?(?P<host>[^\[\]]+?)\]?:(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Answer:
    """One report of the service.

    Attributes:
        form: "txt" (VERBOSE STATUS) or "json" (2.28.7 and later).
        data: the report, as it came.
    """

    form: str
    data: bytes


def address_of(targets: Iterable[Target], sockets: Iterable[Socket]) -> tuple[str, int] | None:
    """Where the job's own service listens; None when it has none.

    The port is only spoken to when one of the job's processes holds it, or when the job itself is told to use it.
    """
    for target in targets:
        told = _ADDRESS.fullmatch(target.environment.get("NCCL_RAS_ADDR", "").strip())
        if told:
            return told["host"], int(told["port"])
    for one in sockets:
        if one.state == "LISTEN" and one.local[1] == DEFAULT[1] and one.owners:
            return ("127.0.0.1" if one.local[0] in ("0.0.0.0", "::") else one.local[0]), DEFAULT[1]  # noqa: S104
    return None


def is_off(environment: Mapping[str, str]) -> bool:
    """Whether the job runs without the service."""
    return environment.get("NCCL_RAS_ENABLE", "").strip() == "0"


def ask(address: tuple[str, int]) -> list[Answer]:
    """The report as text, and as JSON where the version knows that; empty when nobody answers as NCCL does."""
    answers = []
    for form, commands in (("txt", ()), ("json", ("SET FORMAT json",))):
        data = _talk(address, commands)
        if data:
            answers.append(Answer(form, data))
        elif form == "txt":
            break
    return answers


def _talk(address: tuple[str, int], commands: Iterable[str]) -> bytes:
    """One conversation. Every line we send is answered by OK but the last, which is answered by the report."""
    deadline = time.monotonic() + _LIMIT_S
    try:
        with socket.create_connection(address, timeout=2) as link:
            link.settimeout(3)
            if not _say(link, "CLIENT PROTOCOL 2", deadline).startswith(b"SERVER PROTOCOL"):
                return b""
            for command in ("TIMEOUT 5", *commands):
                if not _say(link, command, deadline).startswith(b"OK"):
                    return b""
            link.sendall(b"VERBOSE STATUS\n")
            return _read_all(link, deadline)
    except OSError:
        return b""


def _say(link: socket.socket, command: str, deadline: float) -> bytes:
    link.sendall(command.encode() + b"\n")
    answer = b""
    while not answer.endswith(b"\n") and len(answer) < 4096 and time.monotonic() < deadline:
        piece = link.recv(1)
        if not piece:
            break
        answer += piece
    return answer


def _read_all(link: socket.socket, deadline: float) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size < _LIMIT_BYTES and (left := deadline - time.monotonic()) > 0:
        link.settimeout(left)
        try:
            piece = link.recv(1 << 16)
        except TimeoutError:
            break
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
