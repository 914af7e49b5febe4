# Tests: proposers/policies.py
"""Proposers by name, and what is said of a name or an argument that there is not."""

import pytest

from countdown_selfplay.errors import ConfigError, UnknownNameError
from countdown_selfplay.games import GAMES, game_class
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.proposers import PROPOSERS, make_proposer, proposer_class
from countdown_selfplay.proposers.policies import Policies


class Ladder:
    def __init__(self, low=0.2):
        if low < 0:
            raise ValueError(f"`low` ({low}) must be at least 0.")


def test_proposers_and_games_are_classes_by_name_which_a_refused_value_is_said_with(monkeypatch):
    assert proposer_class("policies") is Policies and isinstance(make_proposer("policies"), Policies)
    assert game_class("propose_and_solve") is ProposeAndSolve and set(GAMES) == {
        "propose_and_solve",
        "critic_discernment",
    }
    with pytest.raises(UnknownNameError, match=r"Unknown game 'propose_solve'. Did you mean 'propose_and_solve'"):
        game_class("propose_solve")
    monkeypatch.setitem(PROPOSERS, "ladder", Ladder)
    with pytest.raises(ConfigError, match=r"Proposer 'ladder': `low` \(-1\) must be at least 0."):
        make_proposer("ladder", {"low": -1})
