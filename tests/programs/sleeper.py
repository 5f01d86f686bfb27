"""A process that looks like a rank and sleeps; if asked, it has a child, answers RAS, and serves a recorder's pipe."""

from __future__ import annotations

import multiprocessing
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path

REPORT = b"NCCL version 2.28.9 compiled with CUDA 13.0\n"


def read_sample() -> None:
    time.sleep(3600)


def start_loader() -> None:
    # spawn would start a resource tracker, fork is what DataLoader does
    multiprocessing.get_context("fork").Process(target=read_sample, daemon=True).start()


def answer_ras() -> None:
    """The protocol of nccl/src/ras/client_support.cc: each line is answered by OK, STATUS by the report."""
    host, _, port = os.environ["NCCL_RAS_ADDR"].partition(":")
    server = socket.create_server((host, int(port)))
    while True:
        link, _ = server.accept()
        with link, link.makefile("rwb") as lines:
            form = b"text"
            for line in lines:
                if line.startswith(b"CLIENT PROTOCOL"):
                    lines.write(b"SERVER PROTOCOL 2\n")
                elif line.startswith(b"SET FORMAT"):
                    form = line.split()[-1]
                    lines.write(b"OK\n")
                elif line.startswith(b"VERBOSE STATUS"):
                    lines.write(b'{"nccl_version": "2.28.9"}\n' if form == b"json" else REPORT)
                    lines.flush()
                    break
                else:
                    lines.write(b"OK\n")
                lines.flush()


def serve_recorder(prefix: str, rank: str, dump: str) -> None:
    """What torch does with TORCH_NCCL_DEBUG_INFO_PIPE_FILE: a byte in the pipe makes it write its dump."""
    pipe = f"{prefix}{rank}.pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    while True:
        select.select([reader], [], [], 0.2)
        if os.read(reader, 16):
            Path(f"{dump}{rank}").write_bytes(b"\x80\x02}q\x00.")
        time.sleep(0.05)


def main() -> None:
    folder = Path(sys.argv[1])
    rank = os.environ.get("RANK", "0")
    for wish in sys.argv[2:]:
        if wish == "loader":
            start_loader()
        elif wish == "ras":
            threading.Thread(target=answer_ras, daemon=True).start()
        elif wish == "recorder":
            settings = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"], rank, os.environ["TORCH_FR_DUMP_TEMP_FILE"]
            threading.Thread(target=serve_recorder, args=settings, daemon=True).start()
    (folder / f"ready-{os.getpid()}").touch()
    time.sleep(3600)


if __name__ == "__main__":
    main()
