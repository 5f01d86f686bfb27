"""Which lines give the reason of an abort: after them, SIGABRT is only how the process ends."""

from __future__ import annotations

from hangscope.align.job import Job
from hangscope.facts.death import Death
from hangscope.facts.gpu import ERROR_KINDS
from hangscope.model import Event

# Faults only: what healthy processes print on their way (a joined barrier, a connected mesh) is no reason to abort.
REASON_KINDS = frozenset(
    {
        *ERROR_KINDS,
        *("device_assertion", "blocking_wait_timeout", "clients_missing", "tf_collective_aborted"),
        *("gloo_connect_failed", "gloo_connect_retry", "gloo_interface_missing", "gloo_mesh_failed"),
        *("gloo_pair_closed", "gloo_peer_closed", "gloo_read_error", "gloo_size_mismatch", "gloo_wait_timeout"),
        *("nccl2_abort", "nccl2_error", "nccl2_finalize_timeout", "nccl2_timeout"),
        *("store_barrier_timeout", "store_call_failed", "store_check_failed", "store_closed", "store_connection_lost"),
        *("store_dial_failed", "store_input_timeout", "store_socket_timeout"),
        *("watchdog_async_error", "watchdog_dump_signal", "watchdog_dump_started", "watchdog_first_to_signal"),
        *("watchdog_heartbeat_lost", "watchdog_kills_process", "watchdog_progress", "watchdog_remote_dump_seen"),
        *("watchdog_remote_dump_signal", "watchdog_stuck", "watchdog_takes_process_down", "watchdog_thread_ended"),
        *("watchdog_timeout", "watchdog_timeout_heading"),
        *("xla_clique_stuck", "xla_leader_stuck", "xla_rendezvous_short", "xla_rendezvous_stuck"),
    }
)


def is_abort_explained(job: Job, death: Death, cries: list[Event]) -> bool:
    """Whether the abort is only how the process ended: a watchdog, a CUDA error or a C++ exception made it.

    Args:
        job: the job; where nobody knows whose the death is, any process may have given the reason.
        death: of signal SIGABRT.
        cries: the last words of that process.
    """
    if any(cry.kind == "terminate_called" and cry.fields.get("thrown") for cry in cries):
        return True
    if death.rank is None or death.rank not in job.ranks:
        return job.events.has(*REASON_KINDS)
    return any(event.kind in REASON_KINDS for event in job.ranks[death.rank].events)
