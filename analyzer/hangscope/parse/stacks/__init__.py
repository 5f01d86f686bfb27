"""Stack dumps in text: py-spy, faulthandler, pystack, gdb and others, alone in a file or in the middle of a log."""

from __future__ import annotations

from hangscope.parse.stacks.reader import StackReader, placed

__all__ = ["StackReader", "placed"]
