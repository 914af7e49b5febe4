# Tests: contract/domain.py, contract/game.py, contract/round.py, contract/stateful.py
"""The examples in the docstrings of the interfaces run as they are printed."""

import doctest

import pytest

import countdown_selfplay.testing  # noqa: F401  # loads torch before the tests are timed
from countdown_selfplay.contract import domain, game, round, stateful

SHOWN = {
    domain: ("BaseDomain", "Critique", "Helping", "Mutations"),
    game: ("BaseGame", "BaseProposer", "BaseGuide"),
    round: ("Round",),
    stateful: ("Stateful",),
}


@pytest.mark.parametrize("module", SHOWN, ids=lambda module: module.__name__.rpartition(".")[2])
def test_each_interface_shows_its_use_in_twelve_lines_that_run(module):
    for name in SHOWN[module]:
        example = getattr(module, name).__doc__.partition("Example::\n\n")[2]
        assert 0 < len(example.rstrip().splitlines()) <= 12, name
    assert doctest.testmod(module).failed == 0
