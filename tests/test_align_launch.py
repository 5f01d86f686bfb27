"""By what a job was started, and by which names its processes can be reached."""

from __future__ import annotations

import pytest

from hangscope.align.launch import Launch
from nccl_logs import job_of

FILES = dict[str, list[str]]
PS = "  PID  PPID STAT     TIME COMMAND"
WORKER = "failed (exitcode: -9) local_rank: 3 (pid: 4925) of binary: /venv/bin/python3"


@pytest.mark.parametrize(
    ("files", "launch"),
    [
        ({"a.log": ["loss 0.1"]}, Launch()),
        ({"a.log": [f"ERROR:torch.distributed.elastic.multiprocessing.api:{WORKER}"]}, Launch("torchrun")),
        (
            {"a.log": ["slurmstepd: error: *** STEP 1809655.0 ON node01 CANCELLED AT 2021-05-24T09:50:34 ***"]},
            Launch("srun", "slurm", "1809655"),
        ),
        ({"slurm-4711.out": ["[default3]: loss 0.1", "[default4]: loss 0.1"]}, Launch("torchrun", "slurm", "4711")),
        ({"slurm-4711_3.out": ["x"], "slurm-4712.out": ["y"]}, Launch(None, "slurm", None)),
        ({"slurm-4711_3.out": ["x"]}, Launch(None, "slurm", "4711_3")),
        ({"a.log": ["export SLURM_JOB_ID=4711"]}, Launch("srun", "slurm", "4711")),
        (
            {"ps.txt": [PS, "  70     1 S    00:00:01 /venv/bin/python /venv/bin/torchrun --nproc_per_node=2 t.py"]},
            Launch("torchrun"),
        ),
        ({"ps.txt": [PS, "  70     1 S    00:00:01 mpirun -np 4 python t.py"]}, Launch("mpirun")),
        ({"ps.txt": [PS, "  70     1 S    00:00:01 python -m deepspeed.launcher.launch t.py"]}, Launch("deepspeed")),
        ({"ps.txt": [PS, "  70     1 S    00:00:01 python deepspeed_example.py"]}, Launch()),
        ({"ps.txt": [PS, "  70     1 S    00:00:01 python /venv/bin/accelerate launch t.py"]}, Launch("accelerate")),
        (
            {"a.log": ["[pod/job-worker-0/trainer] loss 0.1", "[pod/job-worker-1/trainer] loss 0.1"]},
            Launch(None, "kubernetes", pods={"job-worker-0": "", "job-worker-1": ""}),
        ),
        (
            {
                "pods.txt": [
                    "NAME           READY   STATUS    RESTARTS   AGE   IP          NODE",
                    "job-worker-0   1/1     Running   0          5m    10.1.0.1    node07",
                ]
            },
            Launch(None, "kubernetes", pods={"job-worker-0": "node07"}),
        ),
        ({"a.log": ["(train_fn pid=123, ip=10.0.0.2) loss 0.1"] * 3}, Launch("ray", "ray")),
        ({"a.log": ["[1,0]<stdout>: loss 0.1", "[1,1]<stdout>: loss 0.1"]}, Launch("mpirun")),
        ({"a.log": ["[launch.py:316:sigkill_handler] Killing subprocess 77"]}, Launch("deepspeed")),
        (
            {
                "a.log": [
                    "cmd = pdsh -S -f 1024 -w a,b cd /; python -u -m deepspeed.launcher.launch --master_addr=a t.py"
                ]
            },
            Launch(pdsh=True),
        ),
        (
            {
                "a.log": [
                    "Traceback (most recent call last):",
                    '  File "/venv/lib/accelerate/commands/launch.py", line 1165, in launch_command',
                    "    multi_gpu_launcher(args)",
                    "ValueError: x",
                    WORKER,
                ]
            },
            Launch("accelerate"),
        ),
    ],
)
def test_launch_is_told_by_prefixes_messages_and_names_of_files(files: FILES, launch: Launch) -> None:
    job = job_of(files)
    assert (job.launch, job.launcher) == (launch, launch.launcher)
