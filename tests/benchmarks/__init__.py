"""Benchmarks: big made-up jobs, what a command costs, other programs that read the same, and README's tables of it."""
