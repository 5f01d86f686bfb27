"""What a report looks like in a browser: one file that asks the network for nothing."""
