"""Writes commands so that they run where they have to: on a host, in a pod, in a job step, about one process."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hangscope.align.launch import KUBERNETES, SLURM, Launch
from hangscope.expressions import expression
from hangscope.records import dataclass

# Names of the evidence get into commands only when a shell and a program take them for nothing but names.
_NAME = expression(r"[A-Za-z0-9][\w.-]{0,252}", re.ASCII)
_ADDRESS = expression(r"[\d.]+")
# pods of operators (job-worker-0) and of jobs and deployments (train-0-x7k2p), unless they are machines of such a name
_LIKE_A_POD = expression(
    r"[\w.-]+-(?:(?:master|worker|launcher|chief)-\d+|(?:\d+|[bcdfghj-np-tv-z2-9]{8,10})-[bcdfghj-np-tv-z2-9]{5})"
)
_ONE_COMMAND = expression(r"[\w\s./:,=@%+-]+")
_MOST_HOSTS = 16

# What looks at the machine or container it runs on, and changes nothing.
_LOOKS = frozenset(
    (
        *("cat", "df", "dmesg", "ethtool", "free", "getent", "grep", "hostname", "ibstat", "ibv_devinfo", "ip"),
        *("journalctl", "ldconfig", "ls", "lsmod", "lspci", "mlxlink", "mount", "ncclras", "nvidia-smi", "perfquery"),
        *("pgrep", "ps", "py-spy", "show_gids", "smartctl", "ss", "ibqueryerrors", "coredumpctl"),
    )
)
_OF_THE_NODE = expression(r"\b(?:dmesg|journalctl|lspci|lsmod|smartctl|mlxlink|coredumpctl)\b")


def is_name(text: str) -> bool:
    """Whether a host, pod or address of the evidence can stand in a command, and says more than "here"."""
    return _NAME.fullmatch(text) is not None and text != "localhost"


@dataclass(frozen=True, slots=True)
class Reach:
    """The way to the processes of one job.

    Attributes:
        launch: how the job was started.
    """

    launch: Launch

    def on(self, host: str | None, command: str, *, live: bool = True) -> str:
        """A command as one types it to run it on a host, or in the pod that calls itself so.

        Without a host that can be named, or where it cannot be quoted, the command itself.

        Args:
            host: as the evidence names it.
            command: for a shell.
            live: it concerns processes that run, so that the job's own step can be joined.
        """
        if host is None or not is_name(host):
            return command
        if self.launch.platform == KUBERNETES and not _ADDRESS.fullmatch(host):
            return self._in_pod(host, command)
        quoted = _quote(command)
        if quoted is None:
            return command
        if self.launch.platform == SLURM and live and not _OF_THE_NODE.search(command):
            shell = "" if quoted == command else "bash -c "
            return f"srun --jobid={self.job_id} --overlap -w {host} {shell}{quoted}"
        if not self.launch.platform and _LIKE_A_POD.fullmatch(host):
            # no log says whether one gets there by ssh or by kubectl
            return f"{command}   # on {host}"
        return f"ssh {host} {quoted}"

    def everywhere(self, hosts: Sequence[str], command: str) -> str:
        """A command as one types it to run it on every host of the job."""
        named = [host for host in hosts if is_name(host)]
        quoted = _quote(command)
        if quoted is None or len(named) != len(hosts) or len(named) > _MOST_HOSTS:
            named = []
        shell = "" if quoted == command else "bash -c "
        if self.launch.platform == SLURM and quoted is not None and not _OF_THE_NODE.search(command):
            return f"srun --jobid={self.job_id} --overlap --ntasks-per-node=1 {shell}{quoted}"
        if len(named) < 2:
            return self.on(named[0] if named else None, command)
        if self.launch.platform == KUBERNETES:
            in_pod = self._in_pod("$pod", command)
            return f"for pod in {' '.join(named)}; do {in_pod}; done"
        if not self.launch.platform and any(map(_LIKE_A_POD.fullmatch, named)):
            return f"{command}   # on each of {', '.join(named)}"
        if self.launch.pdsh:
            return f"pdsh -w {','.join(named)} {quoted}"
        return f"for host in {' '.join(named)}; do ssh $host {quoted}; done"

    def for_finding(self, hosts: Sequence[str], command: str) -> str:
        """A command of a remedy on the host that it is about, when it only looks at a machine, and there is one."""
        return self.on(hosts[0], command) if len(hosts) == 1 and _only_looks(command) else command

    def for_all(self, hosts: Sequence[str], command: str) -> str:
        """A command of a remedy on every host of the job, when it only looks at a machine."""
        return self.everywhere(hosts, command) if _only_looks(command) else command

    @property
    def job_id(self) -> str:
        """Slurm's id of the job, or a word in its place."""
        return self.launch.slurm_job or "JOBID"

    def _in_pod(self, pod: str, command: str) -> str:
        if _OF_THE_NODE.search(command):
            return self._on_node_of(pod, command)
        quoted = _quote(command)
        if quoted is None:
            return command
        return f"kubectl exec {pod} -- {command}" if quoted == command else f"kubectl exec {pod} -- sh -c {quoted}"

    def _on_node_of(self, pod: str, command: str) -> str:
        """The kernel's log, the devices and their drivers are the node's, and out of the reach of a pod."""
        node = self.launch.pods.get(pod, "")
        if not is_name(node):
            node = f"$(kubectl get pod {pod} -o jsonpath={{.spec.nodeName}})"
        quoted = _quote(command)
        if quoted is None:
            return command
        shell = command if quoted == command else f"sh -c {quoted}"
        return f"kubectl debug node/{node} -it --image=busybox -- chroot /host {shell}"


def _only_looks(command: str) -> bool:
    """Every command of a list does; what stands behind a pipe only reads what comes out of it."""
    words = [part.split(maxsplit=1)[:1] for part in command.split(";")]
    return all(first and first[0] in _LOOKS for first in words)


def _quote(command: str) -> str | None:
    """A command as one word for a remote shell, readable; None when it holds quotes of both kinds."""
    if _ONE_COMMAND.fullmatch(command):
        return command
    if not re.search(r'["$`\\!]', command):
        return f'"{command}"'
    return f"'{command}'" if "'" not in command else None
