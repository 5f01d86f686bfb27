"""Reads PyTorch's flight-recorder dumps: a ring of the last calls of one process (pickle or JSON, torch 2.2 on)."""
