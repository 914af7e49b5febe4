# Tests: config/settings.py, config/part_rules.py, config/own_parts.py, contract/stateful.py
"""`game` and `proposer` by name: what a game of one's own must have, and which arguments are taken."""

import pytest

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.contract.game import BaseGame, BaseProposer
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.games import GAMES
from countdown_selfplay.proposers import PROPOSERS


class Duel(BaseGame):
    roles = {"prover": "answers", "critic": "judges"}  # noqa: RUF012

    def __init__(self, rounds=1):
        if rounds < 1:
            raise ValueError(f"`rounds` ({rounds}) must be at least 1.")

    def play(self, round, anchors): ...


class NoRoles(BaseGame):
    def play(self, round, anchors): ...


class EmptyRoles(NoRoles):
    roles = {}  # noqa: RUF012


class NoPlay(BaseGame):
    roles = {"prover": "answers"}  # noqa: RUF012


class Forgetful(Duel):
    def state_dict(self): ...


class Mute(BaseProposer):
    def learn(self, round, outcome): ...


class Critical(BaseProposer):
    needs = ("critic",)

    def propose(self, round, anchors): ...


class Bare:
    roles = {"prover": "answers"}  # noqa: RUF012

    def play(self, round, anchors): ...

    def propose(self, round, anchors): ...


@pytest.fixture
def config(monkeypatch):
    for part in (Duel, NoRoles, EmptyRoles, NoPlay, Forgetful, Bare):
        monkeypatch.setitem(GAMES, part.__name__, part)
    for part in (Mute, Critical, Bare):
        monkeypatch.setitem(PROPOSERS, part.__name__, part)
    return lambda **changes: JointSelfPlayConfig("unused", use_cpu=True, **changes)


def test_a_game_by_name_has_its_roles_and_takes_its_arguments(config):
    found = config(game="Duel", game_kwargs='{"rounds": 2}', roles={"critic": {"players": 2}}, proposer="Critical")
    assert found.trained_roles == ("prover", "critic/0", "critic/1") and found.game_arguments == {"rounds": 2}


REFUSED = {
    "no roles": (dict(game="NoRoles"), r"`game` \(NoRoles\) must have `roles`, a dict from each .*; it has \{\}"),
    "empty roles": (dict(game="EmptyRoles"), r"`game` \(EmptyRoles\) must have `roles`.*; it has \{\}"),
    "no play": (dict(game="NoPlay"), r"`game` \(NoPlay\) must have a method `play`"),
    "half a state": (dict(game="Forgetful"), r"`game` \(Forgetful\) has no method `load_state_dict`"),
    "argument": (dict(game="Duel", game_kwargs={"round": 2}), r"Game 'Duel' does not take round; it takes rounds\."),
    "value": (dict(game="Duel", game_kwargs={"rounds": 0}), r"Game 'Duel': `rounds` \(0\) must be at least 1"),
    "not JSON": (dict(game="Duel", game_kwargs="{rounds"), r"`game_kwargs` \('\{rounds'\) must be a JSON object"),
    "no name": (dict(game=None, roles={}, game_kwargs={"rounds": 2}), r"`game_kwargs` \(.*\) is for a game that"),
    "no propose": (dict(proposer="Mute"), r"`proposer` \(Mute\) must have a method `propose`"),
    "no base": (dict(game="Bare"), r"`game` \(Bare\) must be derived from BaseGame \(`from countdown_selfplay"),
    "no proposer's base": (dict(proposer="Bare"), r"`proposer` \(Bare\) must be derived from BaseProposer"),
    "no critic": (dict(proposer="Critical"), r"`proposer` \(Critical\) needs a critic, and this run has none; give"),
    "no conjecturer": (dict(proposer="policies", roles={"conjecturer": {"players": 0}}),
                       r"`proposer` \(policies\) needs a conjecturer, and this run has none; give"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_in_one_sentence(config, name):
    changes, message = REFUSED[name]
    roles = {"roles": {"critic": {}}} if changes.get("game") in ("Duel", "Forgetful") else {}
    with pytest.raises(ConfigError, match=message):
        config(**roles | changes)
