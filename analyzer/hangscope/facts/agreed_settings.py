"""Names the NCCL settings that have to be equal on all ranks, or the ranks may wait for each other for ever."""

from __future__ import annotations

# By NCCL's user guide and source, 2.3.5 to 2.32.3; without the prefix NCCL_. Settings that may differ from node to
# node (interface and HCA filters, GID index, NCCL_HOSTID) are not among them.
_NAMES = frozenset(
    (
        "ALGO",
        "PROTO",
        "NTHREADS",
        "MIN_NCHANNELS",
        "MAX_NCHANNELS",
        "MIN_CTAS",
        "MAX_CTAS",
        "MIN_NRINGS",
        "MAX_NRINGS",
        "NCHANNELS_PER_NET_PEER",
        "CROSS_NIC",
        "NET",
        "NET_PLUGIN",
        "IB_DISABLE",
        "IB_TC",
        "IB_SL",
        "IB_FIFO_TC",
        "IB_PKEY",
        "IB_QPS_PER_CONNECTION",
        "IB_SPLIT_DATA_ON_QPS",
        "IB_MERGE_NICS",
        "NET_MERGE_LEVEL",
        "IB_USE_INLINE",
        "IB_ADDR_FAMILY",
        "SOCKET_FAMILY",
        "SOCKET_NTHREADS",
        "NSOCKS_PERTHREAD",
        "OOB_NET_ENABLE",
        "NET_GDR_LEVEL",
        "NET_GDR_READ",
        "DMABUF_ENABLE",
        "P2P_DISABLE",
        "P2P_LEVEL",
        "P2P_DIRECT_DISABLE",
        "IGNORE_DISABLED_P2P",
        "SHM_DISABLE",
        "NVLS_ENABLE",
        "NVLS_NCHANNELS",
        "MNNVL_ENABLE",
        "MNNVL",
        "PXN_DISABLE",
        "P2P_PXN_LEVEL",
        "P2P_NET_CHUNKSIZE",
        "P2P_PCI_CHUNKSIZE",
        "P2P_NVL_CHUNKSIZE",
        "COLLNET_ENABLE",
        "COLLNET_NODE_THRESHOLD",
        "SHARP_ENABLE",
        "TOPO_FILE",
        "GRAPH_FILE",
        "COMM_BLOCKING",
        "COMM_SPLIT_SHARE_RESOURCES",
        "RUNTIME_CONNECT",
        "GRAPH_MIXING_SUPPORT",
        "GRAPH_REGISTER",
        "MULTI_RANK_GPU_ENABLE",
        "TUNER_PLUGIN",
        "TUNER_CONFIG_FILE",
        "SOCKET_MAGIC",
        "RAS_ENABLE",
        "CFT_ENABLE",
        "RMA_EAGER_INIT",
        "IB_RAIL_POLICY",
        "LAUNCH_MODE",
        "SINGLE_RING_THRESHOLD",
        "LL_THRESHOLD",
        "TREE_THRESHOLD",
        "THREAD_THRESHOLDS",
        "IGNORE_NET_MISMATCH",
        "WORK_FIFO_BYTES",
    )
)
_PREFIXES = ("IB_TIMEOUT", "IB_RETRY_CNT", "IB_RESILIENCY", "BUFFSIZE", "LL", "CUMEM_", "GDRCOPY_")


def must_agree(name: str) -> bool:
    """Whether a setting (``NCCL_ALGO``) has to be equal on all ranks."""
    short = name.removeprefix("NCCL_")
    return short in _NAMES or short.startswith(_PREFIXES)
