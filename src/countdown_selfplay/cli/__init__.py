"""The command line: one module per command, with `main(argv) -> exit code`, imported when it is called."""
