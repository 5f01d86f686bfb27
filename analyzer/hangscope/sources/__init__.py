"""From paths to logical lines: where logs lie, what they are, and what launchers put around each line."""
