"""In a process that has loaded torch no command says that it loads it, whichever test comes first."""

from tests.cli.conftest import refused, run, shown  # noqa: F401
