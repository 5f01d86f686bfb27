"""Lines to events: every input read once, by grammars, with the bulk kept as columns."""
