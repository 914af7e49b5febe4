"""The command line: one cheap module per command, with `HELP` (one line) and `main(argv) -> exit code`."""
