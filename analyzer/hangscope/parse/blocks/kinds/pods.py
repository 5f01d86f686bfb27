"""The table of ``kubectl get pods``, with or without ``-o wide`` and ``-A``."""

from __future__ import annotations

from hangscope.expressions import expression
from hangscope.model import Event, Line, Value

BEGINS = r"(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s"

_ROW = expression(
    r"\s*(?:(?P<space>[\w.-]+)\s+)?(?P<pod>[\w.-]+)\s+(?P<ready>\d{1,4})/(?P<all>\d{1,4})\s+(?P<status>[\w:.-]+)"
    r"\s+(?P<restarts>\d{1,6})(?: \([^)]{1,30}\))?\s+(?P<age>\w+)(?:\s+(?P<ip>\S+)\s+(?P<node>\S+))?"
)
# grammars/scheduler.lark finds these words on lines of other commands
_SAID = {"OOMKilled": "kube_oom_killed", "NodeLost": "kube_node_not_ready", "NodeNotReady": "kube_node_not_ready"}


def open_block(_line: Line, text: str) -> PodTable | None:
    """The table below its header."""
    return PodTable() if text.split()[:3][-1] in ("STATUS", "READY") else None


class PodTable:
    """One row a pod."""

    def feed(self, line: Line, text: str) -> list[Event] | None:
        """The pod of one row."""
        found = _ROW.match(text)
        if found is None:
            return None
        node = found["node"]
        fields: dict[str, Value] = {
            "pod": found["pod"],
            "pod_status": found["status"],
            "ready": int(found["ready"]),
            "containers": int(found["all"]),
            "restarts": int(found["restarts"]),
            "node": None if node in (None, "<none>") else node,
        }
        events = [Event("kubectl", "kube_pod", fields, line)]
        said = _SAID.get(found["status"].removeprefix("Init:"))
        return [*events, Event("kubectl", said, {}, line)] if said else events

    def end(self) -> list[Event]:
        """Nothing: every row was told."""
        return []
