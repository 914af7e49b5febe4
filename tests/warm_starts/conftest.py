"""The fixtures of tests/cli, which calls commands in process."""

from tests.cli.conftest import refused, run, shown  # noqa: F401
