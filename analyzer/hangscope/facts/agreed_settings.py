"""Names the settings that have to be equal on all ranks, or the ranks may wait for each other for ever, and why."""

from __future__ import annotations

EFFECTS: dict[str, tuple[str, ...]] = {
    "the ranks choose different algorithms or protocols": (
        "ALGO", "PROTO", "LL_THRESHOLD", "TREE_THRESHOLD", "THREAD_THRESHOLDS", "NTHREADS",
        "COLLNET_ENABLE", "COLLNET_NODE_THRESHOLD", "SHARP_ENABLE", "NVLS_ENABLE", "TUNER_PLUGIN", "TUNER_CONFIG_FILE",
        "GRAPH_MIXING_SUPPORT", "GRAPH_REGISTER", "LAUNCH_MODE",
    ),
    "the ranks prepare different numbers of channels": (
        "MIN_NCHANNELS", "MAX_NCHANNELS", "MIN_CTAS", "MAX_CTAS", "MIN_NRINGS", "MAX_NRINGS", "NCHANNELS_PER_NET_PEER",
        "NVLS_NCHANNELS", "CROSS_NIC", "IB_RAIL_POLICY", "IGNORE_NET_MISMATCH", "TOPO_FILE", "GRAPH_FILE",
    ),
    "the ranks use different networks, or do not understand each other's connections": (
        "NET", "NET_PLUGIN", "IB_DISABLE", "SOCKET_FAMILY", "IB_ADDR_FAMILY", "SOCKET_NTHREADS", "NSOCKS_PERTHREAD",
        "OOB_NET_ENABLE", "OOB_NET_IFNAME", "COMM_ID", "SOCKET_MAGIC", "IB_MERGE_NICS", "NET_MERGE_LEVEL", "IB_PKEY",
        "IB_QPS_PER_CONNECTION", "IB_SPLIT_DATA_ON_QPS", "IB_USE_INLINE", "IB_RESILIENCY*", "MULTI_RANK_GPU_ENABLE",
        "ENV_PLUGIN", "CONF_FILE",
    ),
    "some ranks wait longer for a lost peer, or send in another traffic class": (
        "IB_TIMEOUT*", "IB_RETRY_CNT*", "IB_TC", "IB_SL", "IB_FIFO_TC",
    ),
    "the two ends of a connection choose different transports": (
        "P2P_DISABLE", "P2P_LEVEL", "P2P_DIRECT_DISABLE", "IGNORE_DISABLED_P2P", "PXN_DISABLE", "P2P_PXN_LEVEL",
        "MNNVL_ENABLE", "MNNVL", "NET_GDR_LEVEL", "NET_GDR_READ", "DMABUF_ENABLE", "GDRCOPY_*", "CUMEM_*",
        "RUNTIME_CONNECT", "COMM_BLOCKING", "COMM_SPLIT_SHARE_RESOURCES", "CFT_ENABLE", "RMA_EAGER_INIT",
    ),
    "the ranks send messages of different sizes": (
        "BUFFSIZE*", "LL*", "P2P_NET_CHUNKSIZE", "P2P_PCI_CHUNKSIZE", "P2P_NVL_CHUNKSIZE", "WORK_FIFO_BYTES",
    ),
    "some ranks do not answer when RAS asks": ("RAS_ENABLE",),
}  # fmt: skip
"""What happens when ranks differ -> NCCL's settings, without NCCL_; one with * is the beginning of names.

By NCCL's user guide and source, 2.3.5 to 2.32.3. Settings that may differ from node to node (filters of interfaces and
HCAs, GID index, NCCL_HOSTID) are not among them.
"""
_ON_A_HOST = {"SHM_DISABLE": "the two ends of a connection choose different transports"}
"""These have to be equal on the ranks of a host only."""

_TORCH = {
    # DETAIL wraps every group: all ranks compare their calls through a group of their own (2.0 to 2.13)
    "TORCH_DISTRIBUTED_DEBUG": "the ranks with DETAIL compare every call with peers that do not take part",
    "TORCH_NCCL_USE_COMM_NONBLOCKING": "some ranks make their communicators at another moment than the others",
}
_DEFAULTS = {
    "NCCL_IB_DISABLE": "0",
    "NCCL_P2P_DISABLE": "0",
    "NCCL_SHM_DISABLE": "0",
    "NCCL_P2P_DIRECT_DISABLE": "0",
    "NCCL_PXN_DISABLE": "0",
    "NCCL_COLLNET_ENABLE": "0",
    "NCCL_IGNORE_DISABLED_P2P": "0",
    "NCCL_IGNORE_NET_MISMATCH": "0",
    "NCCL_OOB_NET_ENABLE": "0",
    "NCCL_MULTI_RANK_GPU_ENABLE": "0",
    "NCCL_IB_SL": "0",
    "NCCL_IB_TC": "0",
    "NCCL_IB_PKEY": "0",
    "NCCL_IB_RETRY_CNT": "7",
    "NCCL_IB_QPS_PER_CONNECTION": "1",
    "NCCL_CROSS_NIC": "2",
    "NCCL_DMABUF_ENABLE": "1",
    "NCCL_RUNTIME_CONNECT": "1",
    "NCCL_GRAPH_MIXING_SUPPORT": "1",
    "NCCL_RAS_ENABLE": "1",
    "TORCH_DISTRIBUTED_DEBUG": "OFF",
    "TORCH_NCCL_USE_COMM_NONBLOCKING": "0",
}
"""What a setting is where nobody sets it, for those of which it is one value in all releases that have it."""

_EXACT = {name: effect for effect, names in EFFECTS.items() for name in names if not name.endswith("*")}
_BEGINNINGS = {name[:-1]: effect for effect, names in EFFECTS.items() for name in names if name.endswith("*")}


def must_agree(name: str) -> bool:
    """Whether a setting (``NCCL_ALGO``) has to be equal on all ranks."""
    return effect_of(name) != "" and not is_of_host(name)


def is_of_host(name: str) -> bool:
    """Whether a setting (``NCCL_SHM_DISABLE``) has to be equal on the ranks of one host, and not beyond it."""
    return name.removeprefix("NCCL_") in _ON_A_HOST


def effect_of(name: str) -> str:
    """What happens when ranks differ in a setting, "" when they may."""
    if name in _TORCH:
        return _TORCH[name]
    if not name.startswith("NCCL_"):
        return ""
    short = name.removeprefix("NCCL_")
    exact = _EXACT.get(short) or _ON_A_HOST.get(short)
    return exact or next((effect for begin, effect in _BEGINNINGS.items() if short.startswith(begin)), "")


def effective(name: str, value: str | None) -> str:
    """What a value amounts to: the default where it is not set (None), and the same for values that do the same."""
    if value is None:
        return _DEFAULTS.get(name, "")
    if name == "TORCH_DISTRIBUTED_DEBUG":
        # INFO prints more, and calls nothing
        return "DETAIL" if value.upper() == "DETAIL" else "OFF"
    return value
