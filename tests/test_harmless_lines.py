"""Lines of healthy jobs that people take for the cause: they accuse nobody, alone or beside a real fault."""

from __future__ import annotations

import pytest

from hangscope.api import analyze_text
from hangscope.diagnose.catalogue import BOOKKEEPING_FAMILY, causes
from hangscope.model import Role

HARMLESS = (
    # look-ups and addresses of the store
    (
        "[W1129 16:06:05.599564847 socket.cpp:601] [c10d] The client socket has failed to connect to [node01]:29500 "
        "(errno: 97 - Address family not supported by protocol)."
    ),
    "[W1129 16:06:05.599564847 socket.cpp:752] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
    (
        "[W1129 16:06:05.599564847 TCPStore.cpp:120] [c10d] The server socket on 29500 has failed to bind. "
        "TORCHELASTIC_USE_AGENT_STORE is enabled so ignoring the error."
    ),
    (
        "Port 29500 is already in use. Accelerate will attempt to launch in a standalone-like mode by finding an open "
        "port automatically for this session."
    ),
    # NCCL looks for plugins and devices
    "node01:101:101 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.",
    "node01:101:101 [0] NCCL INFO Failed to open libibverbs.so[.1]",
    "node01:101:101 [0] NCCL INFO NET/IB : No device found.",
    "node01:101:101 [0] NCCL WARN NET/OFI No NIC info for dev 0",
    "node01:101:101 [0] NCCL INFO Could not get speed from /sys/class/net/eth0/speed. Defaulting to 10 Gbps.",
    "node01:101:101 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : mlx5_0:1 Got async event : client reregistration",
    (
        "[rank0]:[I1129 16:06:05.599564847 ProcessGroupGloo.cpp:500] [Gloo] Rank 0 is connected to 7 peer ranks. "
        "Expected number of connected peer ranks is : 7"
    ),
    # banners and warnings of launchers and torch
    (
        "W0815 13:13:27.000000 140123456 torch/distributed/run.py:874] Setting OMP_NUM_THREADS environment variable "
        "for each process to be 1 in default, to avoid your system being overloaded"
    ),
    "FutureWarning: The module torch.distributed.launch is deprecated and will be removed in future. Use torchrun.",
    (
        "UserWarning: barrier(): using the device under current context. You can specify `device_id` in "
        "`init_process_group` to mute this warning."
    ),
    "FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead.",
    (
        "[rank0]:[W1129 16:06:05.599564847 ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to "
        "perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if "
        "this rank to GPU mapping is incorrect."
    ),
    (
        "[rank0]:[W1129 16:06:05.599564847 ProcessGroupNCCL.cpp:1538] WARNING: destroy_process_group() was not called "
        "before program exit, which can leak resources."
    ),
    # hosts
    "libibverbs: Warning: RLIMIT_MEMLOCK is 65536 bytes.",
    "[171167.620236] NVRM: Xid (PCI:0000:dc:00): 63, pid=1818990, name=python3, Row Remapper: New row marked",
    "[171167.620236] NVRM: Xid (PCI:0000:dc:00): 93, pid=1818990, name=python3, wear limit",
    "[171167.620236] pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0",
    "[171167.620236] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 24001, Non-fatal, Link 48 corrected",
    "Jun 1 10:00:00 node01 nvidia-gridd[88]: License acquired successfully. (Info: 10.0.0.9, NVIDIA Virtual Compute)",
    "UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode",
)
RUN = "step 1 loss 3.2\nstep 2 loss 3.1\n"
FAULT = (
    "[rank3]: Traceback (most recent call last):\n"
    '[rank3]:   File "/work/train.py", line 9, in <module>\n'
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
    "79.15 GiB of which 1.20 GiB is free.\n"
)


@pytest.mark.parametrize("line", HARMLESS, ids=range(len(HARMLESS)))
def test_a_harmless_line_accuses_nobody(line: str) -> None:
    for log in (line + "\n", f"{line}\n{RUN}", f"{RUN}{line}\n"):
        accused = [
            finding.rule
            for finding in analyze_text(log)
            if finding.role is not Role.CONTRIBUTING and causes()[finding.cause].family != BOOKKEEPING_FAMILY
        ]
        assert accused == []


@pytest.mark.parametrize("line", HARMLESS, ids=range(len(HARMLESS)))
def test_a_harmless_line_hides_no_fault(line: str) -> None:
    for log in (f"{line}\n{RUN}{FAULT}", f"{RUN}{FAULT}{line}\n"):
        verdict = analyze_text(log)[0]
        assert (verdict.cause, verdict.ranks) == ("gpu-out-of-memory", (3,))
        assert verdict.confidence > 0.8
