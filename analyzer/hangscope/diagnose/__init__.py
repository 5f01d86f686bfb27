"""From facts to the verdict: reads the rules, evaluates them, and chooses the root cause."""
