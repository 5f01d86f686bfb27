"""Blocks of lines that only their head explains: tables of processes, nested reports of tools."""

from hangscope.parse.blocks.reader import BlockReader

__all__ = ["BlockReader"]
