"""What commands that read logs have in common: a bar for who waits, warnings, and the end when nothing is readable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hangscope.errors import InputError

if TYPE_CHECKING:
    from hangscope.model import SourceRecord

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes there are."""

_PROGRESS_FROM_BYTES = 20_000_000
"""Less than this is read before a bar could be looked at."""


def check_readable(sources: Sequence[SourceRecord]) -> None:
    """Nothing read is no analysis (report contract: exit status 2).

    Raises:
        InputError: none of the inputs could be read.
    """
    failed = [source for source in sources if source.error is not None and not source.lines]
    if not failed or len(failed) < len(sources):
        return
    listed = "; ".join(f"{source.file}: {source.error}" for source in failed[:3])
    rest = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    raise InputError(f"nothing could be read: {listed}{rest}")


def log_to_stderr(*, verbose: bool) -> None:
    """Warnings of hangscope itself, and with verbose everything that is said."""
    import logging

    level = logging.INFO if verbose else logging.WARNING
    handler = logging.StreamHandler(sys.stderr)
    if not verbose:
        # dask tells of every connection, and s3fs of every retry
        handler.addFilter(lambda record: record.name.startswith("hangscope"))
    logging.basicConfig(handlers=[handler], level=level, format="hangscope: %(message)s")


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A bar on standard error for somebody who waits there, and only if there is something to wait for."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("reading"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("reading", total=None)

    def update(done_bytes: int, total_bytes: int) -> None:
        if total_bytes > _PROGRESS_FROM_BYTES:
            bar.start()
            bar.update(task, completed=done_bytes, total=total_bytes)

    try:
        yield update
    finally:
        bar.stop()
