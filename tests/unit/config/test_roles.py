# Tests: config/roles.py, config/role_rules.py, config/changes.py, config/script.py
"""Roles as data: `roles` in Python, YAML and on the command line, what it resolves to, and what is refused."""

import copy
import json

import pytest
from tests.unit.config.test_config import config

from countdown_selfplay.cli.joint import parse
from countdown_selfplay.config.changes import changed_settings, run_settings
from countdown_selfplay.config.recipes import as_fields, over, spread
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.errors import CheckpointError

CRITIC = ("prover", "helpful", "misleading")
START = {"weights": "start"}


def own_game(**roles):
    return config(game=None, roles=roles)


def test_countdowns_arguments_have_their_names_in_recipes_and_their_mapping_in_the_config():
    flat = {"operands": [3], "anchor_fraction": 0, "prover_beta": 0.25}
    inside = {"domain_kwargs": {"operands": [3]}, "anchor_fraction": 0, "prover_beta": 0.25}
    assert as_fields(flat) == inside and spread(inside) == flat
    text = {"operands": [3], "domain_kwargs": '{"operands": [4], "number_low": 2}'}
    assert as_fields(text) == {"domain_kwargs": {"operands": [3], "number_low": 2}}
    assert over({"domain_kwargs": {"operands": [4]}}, {"operands": [3]}) == {"operands": [3]}
    other = {"domain": "detachment", "domain_kwargs": {"shortest_proof": 11}}
    assert over(flat, other) == {"anchor_fraction": 0, "prover_beta": 0.25, **other}
    assert over(flat, {"game": "critic_discernment"}) == {
        "operands": [3], "prover_beta": 0.25, "game": "critic_discernment",
    }  # fmt: skip


@pytest.mark.parametrize("as_text", [False, True])
def test_a_pool_has_a_name_weights_and_samples_for_each_player(as_text):
    roles = {"prover": {"players": 2, "num_generations": 4}, "conjecturer": {"players": 3, "model": "other"}}
    c = config(roles=json.dumps(roles) if as_text else roles)
    assert c.trained_roles == ("prover/0", "prover/1", "conjecturer/0", "conjecturer/1", "conjecturer/2")
    assert c.players_of("prover") == ("prover/0", "prover/1")
    assert c.given("prover", "players") == 2
    assert [s.weights for s in c.all_roles.values()] == list(c.trained_roles)
    assert {s.model for s in c.all_roles.values() if s.kind == "conjecturer"} == {"other"}
    assert c.samples()["prover/1"] == 8 * 4 and c.samples()["conjecturer/2"] == 8  # each prover attempts every problem
    assert c.role("prover/1").player == "prover/1" and c.role("prover").num_generations == 4


def test_a_conjecturer_of_no_players_is_absent_however_it_is_written():
    for absent in (dict(conjecturer_players=0), dict(roles={"conjecturer": {"players": 0}})):
        c = config(**absent, proposals_per_round=7)  # nobody reads that
        assert c.trained_roles == ("prover",) and c.players_of("conjecturer") == ()
        assert c.to_dict()["conjecturer_players"] == c.role("conjecturer").players == 0
        assert c.anchor_slots == c.problems_per_round and c.samples() == {"prover": 64}
    alone = config(game="critic_discernment", roles={"helpful": None}, conjecturer_players=0)  # which has none
    assert alone.trained_roles == ("prover", "helpful")


def test_a_game_of_ones_own_brings_its_kinds():
    c = own_game(prover={}, helpful={"objective": "rest"}, misleading={"objective": "rest", "beta": 2})
    assert c.with_kinds(CRITIC) is c
    assert c.trained_roles == CRITIC
    alone = config().with_kinds(("prover",))
    assert alone.trained_roles == ("prover",) and config().trained_roles == ("prover", "conjecturer")
    guided = own_game(prover={}, guide={"weights": "start"}).with_kinds(
        ("prover", "guide", "judge"), ("guide", "judge")
    )
    assert tuple(guided.all_roles) == ("prover", "guide")


def test_a_frozen_role_samples_and_has_no_objective_to_act():
    c = own_game(prover={"beta": 0.1}, guide={"weights": "start", "num_generations": 2}, judge={"weights": "guide"})
    guide = c.role("guide")
    assert not guide.trained and guide.weights is None and guide.beta == 0.0 and not c.role("judge").trained
    assert c.trained_roles == ("prover",) and c.samples()["guide"] == 16


def test_weights_are_shared_player_by_player():
    c = own_game(prover={"players": 2}, critic={"players": 2, "weights": "prover"}, judge={"weights": "critic"})
    assert [s.weights for s in c.all_roles.values()] == [
        *("prover/0", "prover/1"), *("prover/0", "prover/1"), "prover/0",
    ]  # fmt: skip
    assert c.trained_roles == tuple(c.all_roles)
    tied = config(policy_sharing="tied")
    assert {s.weights for s in tied.all_roles.values()} == {"policy"}


GROUP_OF_ONE = ("reinforce", "rae", "rest", "expert_iteration")


@pytest.mark.parametrize("objective", GROUP_OF_ONE)
def test_a_group_of_one_is_legal_where_no_sample_is_compared_with_another(objective):
    c = config(prover_objective=objective, prover_num_generations=1)
    assert c.samples()["prover"] == 8
    half = config(conjecturer_objective="reinforce_half", conjecturer_num_generations=1)  # no bits: nothing is dropped
    assert half.role("conjecturer").num_generations == 1


def test_a_lora_pool_may_have_a_temperature_per_base():
    roles = {"conjecturer": {"model": "other", "temperature": 0.5}}
    assert config(policy_sharing="lora", roles=roles).role("conjecturer").temperature == 0.5


def settings(tmp_path, text, *argv):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    return parse(["--config", str(file), "--report_to", "none", *argv])[1]


RECIPE = "recipe: qwen2.5-0.5b/anchored_shaped_fixed\n"  # prover 1e-5, conjecturer 1e-6 as flat fields


def rates(args):
    return [args.role(role).learning_rate for role in ("prover", "conjecturer")]


def test_the_later_source_wins_setting_by_setting_however_each_is_written(tmp_path):
    in_roles = "roles: {prover: {learning_rate: 3e-6, beta: 0.1}}\n"
    assert rates(settings(tmp_path, RECIPE + in_roles)) == [3e-6, 1e-6]  # roles of the file over the recipe's flat one
    args = settings(tmp_path, RECIPE + in_roles, "--prover_learning_rate", "5e-6")
    assert rates(args) == [5e-6, 1e-6] and args.role("prover").beta == 0.1
    args = settings(tmp_path, RECIPE + in_roles, "--learning_rate", "5e-4")
    assert rates(args) == [5e-4, 5e-4] and args.role("prover").beta == 0.1
    json_roles = '{"prover": {"learning_rate": 7e-6}}'
    args = settings(tmp_path, "prover_learning_rate: 0.5\n" + in_roles, "--roles", json_roles)
    assert args.role("prover").learning_rate == 7e-6 and args.role("prover").beta == 0.1
    args = settings(tmp_path, in_roles, "--roles", json_roles, "--prover-learning-rate=9e-6", "--learning_rate", "1")
    assert rates(args) == [9e-6, 1.0]  # within one source: the flat field, roles, the plain field
    args = settings(tmp_path, "roles: {conjecturer: {players: 2}}\n", "--conjecturer_players", "1")
    assert args.role("conjecturer").players == 1  # although it is the default


def test_a_resume_compares_the_fields_of_a_domain_that_both_versions_know():
    """Rules had no `score_tagged` when the checkpoint was written, and the domain is compared field by field."""
    now = run_settings({}, [], [], {"domain": CountdownDomain()})
    then = copy.deepcopy(now)
    del then["domain"]["rules"]["score_tagged"]
    assert changed_settings(then, now, [], "x") == {}
    then["domain"]["rules"]["use_all"] = False
    with pytest.raises(CheckpointError, match="differs from the one that wrote it in domain"):
        changed_settings(then, now, [], "x")
    then["domain"]["class"] = "Other"
    assert list(changed_settings(then, now, ["domain"], "x")) == ["domain"]


def test_a_resume_compares_each_setting_of_a_role_under_its_name():
    def saved(**guide):
        return run_settings(own_game(prover={}, guide=START | guide).to_dict(), [], [], {})

    same = saved()
    assert changed_settings(same, saved(temperature=None), [], "x") == {}
    with pytest.raises(CheckpointError, match=r"roles.guide.temperature \(null there, 0.5 here\)"):
        changed_settings(same, saved(temperature=0.5), [], "x")
    for allowed in ("roles.guide.temperature", "temperature"):
        changed = changed_settings(same, saved(temperature=0.5), [allowed], "x")
        assert changed == {"roles.guide.temperature": [None, 0.5]}
    with pytest.raises(CheckpointError, match=r"roles.guide.players \(1 there, 2 here\)"):
        changed_settings(same, saved(players=2), ["roles.guide.players"], "x")
    plain, other = (run_settings(own_game(prover={}, **more).to_dict(), [], [], {}) for more in ({}, {"judge": START}))
    with pytest.raises(CheckpointError, match="roles "):
        changed_settings(plain, other, ["roles"], "x")
