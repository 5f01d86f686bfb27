"""Stack dumps in text: py-spy, faulthandler, pystack, gdb and others, alone in a file or in the middle of a log."""

from __future__ import annotations

from hangscope.parse.stacks.reader import StackReader, key_of, placed

__all__ = ["StackReader", "key_of", "placed"]
