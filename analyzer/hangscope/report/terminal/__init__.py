"""What a report looks like in a terminal: one module for each part of the page."""
