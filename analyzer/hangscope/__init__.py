"""hangscope: explains why a distributed GPU job is stuck, from the logs that every rank left behind."""

__version__ = "0.1.0"
