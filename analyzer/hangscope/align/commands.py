"""What the command line of a process says of its part in the job."""

from __future__ import annotations

from hangscope.expressions import expression

LAUNCHER = expression(
    r"(?:^|[/\s])(?:torchrun|mpirun|mpiexec|orted|prterun|srun|slurmstepd|horovodrun|deepspeed|composer|pt_elastic"
    r"|torch\.distributed\.(?:run|launch)|deepspeed\.launcher\.(?:launch|runner)"
    r"|accelerate(?:\.commands\.launch| launch|-launch)|colossalai run)(?=\s|$)|^(?:\S*/)?(?:ba|da)?sh(?=\s|$)"
)
"""Programs that start ranks, and the shells around them."""

LOCAL_RANK = expression(r"(?:^|\s)(?:--local[-_]rank[=\s]|LOCAL_RANK=)(\d{1,6})(?=\s|$)")
"""The local rank that a launcher puts on the command line."""
