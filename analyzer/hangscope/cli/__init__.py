"""The command line: one module for each subcommand, found by being there; `main` starts them."""
