"""The report as Markdown, for an issue or a chat."""
