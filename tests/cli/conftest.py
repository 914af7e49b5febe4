"""How tests call commands: in a process that has loaded torch, so that none says that it loads it."""

import pytest
import torch  # noqa: F401

from countdown_selfplay.cli.main import main


@pytest.fixture
def run(capsys):
    """Exit code, output and errors of a command, given as a line, as words, or both."""

    def play(line, *more):
        return main([*line.split(), *map(str, more)]), *capsys.readouterr()

    return play


@pytest.fixture
def shown(run):
    """The output of a command that succeeds."""

    def play(*line):
        code, out, error = run(*line)
        assert code == 0, error
        return out

    return play


@pytest.fixture
def refused(run):
    """The one line with which a command is refused."""

    def play(*line):
        code, _, error = run(*line)
        assert code == 2 and error.count("\n") == 1, error
        return error

    return play
