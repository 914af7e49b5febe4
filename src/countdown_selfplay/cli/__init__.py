"""Command line: one module per command, with `main(argv) -> exit code`, imported when the command is called."""
