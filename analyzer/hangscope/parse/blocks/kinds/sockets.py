"""Tables of TCP connections: ``ss -tanp``, ``netstat -tanp``, and what attach writes in their form."""

from __future__ import annotations

import re

from hangscope.expressions import expression
from hangscope.model import Event, Line, Value

BEGINS = r"(?:Netid\s+)?State\s+Recv-Q|Proto\s+Recv-Q"

_STATE = r"(?P<state>SYN[-_]SENT|SYN[-_]RECV|ESTAB(?:LISHED)?|LISTEN(?:ING)?|CLOSE[-_]WAIT|[A-Z][A-Z0-9_-]{2,12})"
_END = r"(?P<{0}>[^\s%]{{1,80}})(?:%[^\s:]{{1,40}})?:(?P<{0}_port>[\w*-]{{1,20}})(?=\s|$)"
_SS = expression(
    rf"\s*(?:tcp6?\s+)?{_STATE}\s+\d+\s+(?P<unsent>\d+)\s+{_END.format('local')}\s+{_END.format('peer')}(?:\s+(?P<owner>.*))?$"
)
_NETSTAT = expression(
    rf"\s*tcp6?\s+\d+\s+(?P<unsent>\d+)\s+{_END.format('local')}\s+{_END.format('peer')}\s+{_STATE}(?:\s+(?P<owner>.*))?$"
)
_PID = expression(r"pid=(\d{1,10})|^(\d{1,10})/")
_MOST_CONNECTING = 512


def open_block(_line: Line, text: str) -> SocketTable | None:
    """The table below its header."""
    return SocketTable(_NETSTAT if text.lstrip().startswith("Proto") else _SS)


class SocketTable:
    """One row a connection; those that wait for an answer are told."""

    def __init__(self, row: re.Pattern[str]) -> None:
        self._row = row
        self._told = 0

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """One connection."""
        found = self._row.match(text)
        if found is None:
            # ss breaks rows, netstat lists other families
            return [] if text.startswith((" ", "\t", "udp", "unix", "tcp", "raw")) else None
        if found["state"].replace("_", "-") != "SYN-SENT" or self._told >= _MOST_CONNECTING:
            return []
        self._told += 1
        pid = _PID.search(found["owner"] or "")
        port = found["peer_port"]
        fields: dict[str, Value] = {
            "process": int(pid[1] or pid[2]) if pid else None,
            "peer": found["peer"].strip("[]"),
            "port_number": int(port) if port.isdecimal() and len(port) < 6 else None,
        }
        return [Event("ss", "socket_connecting", fields, line)]

    def end(self) -> list[Event]:
        """Nothing: every row was told."""
        return []
