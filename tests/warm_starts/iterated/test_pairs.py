# Tests: cli/options.py, warm_starts/iterated/select.py, warm_starts/iterated/settings.py
"""Pairs of a success and a failure, and of a right and a wrong step, from rows written by hand."""

import json

import pytest
from tests.warm_starts.iterated.test_select import row

from countdown_selfplay.cli.options import parse_options
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.warm_starts.iterated import IteratedSettings, RoleTraining
from countdown_selfplay.warm_starts.iterated.select import preferred, stepwise
from countdown_selfplay.warm_starts.iterated.settings import paper_roles, with_budget

PROVER = paper_roles("dpo")["prover"]


def of(pair):
    return pair["prompt"], pair["completion"], pair["rejected"]


def test_one_pair_for_each_prompt_that_has_a_success_and_a_failure_by_one_word_each():
    rows = [
        row(prompt='"q"', label="right", completion="a"),
        row(prompt='"q"', label="wrong", completion="b", reward=0.0),
        row(prompt='"q"', label="wrong", completion="c", reward=0.0),
        row(prompt='"q, a, critique"', label="resisted", completion="no", reward=1.25),
        row(prompt='"q, a, critique"', label="kept", completion="a again", reward=1.25),  # neither
        row(prompt='"q, a, critique"', label="misled", completion="b", reward=0.25),
        row(prompt='"q, b, critique"', label="not_corrected", completion="c", reward=0.0),  # nobody mended it
    ]
    first, second = preferred(rows, "prover", PROVER, 0)
    assert of(first) in {('"q"', "a", "b"), ('"q"', "a", "c")}
    assert of(second) == ('"q, a, critique"', "no", "b") and second["label"] == "resisted"
    lots = {of(preferred(rows, "prover", PROVER, seed)[0]) for seed in range(20)}
    assert len(lots) == 2  # which failure is drawn by lot
    # As a check that ran into its deadline can.
    words = [("a", "right"), ("a", "wrong"), ("b", "right"), ("c", "wrong")]
    rows = [row(label=label, completion=text) for text, label in words]
    assert [of(pair) for pair in preferred(rows, "prover", PROVER, 0)] == [('"p"', "b", "c")]


def test_a_critique_is_a_success_or_a_failure_by_the_revisions_of_all_of_its_copies():
    """3 of 4 revisions misled is a success, 2 of 4 is not (appendix B); "twice" has 5 of 8, "often" 6 of 8."""

    def pairs(*said):
        rows = [row("misleading", reward, "shown", text) for text, reward in said]
        return [of(pair) for pair in preferred(rows, "misleading", paper_roles("dpo")["misleading"], 0)]

    assert pairs(("m", 0.75), ("twice", 1.0), ("twice", 0.25)) == [('"p"', "m", "twice")]
    assert pairs(("often", 1.0), ("n", 0.5), ("often", 0.5)) == [('"p"', "often", "n")]
    assert pairs(("twice", 1.0), ("n", 0.5), ("twice", 0.25)) == []


def test_step_dpo_prefers_the_right_step_after_the_steps_that_both_answers_have():
    """3, 5, 7 -> 22 = 3 * 5 + 7: the first mistake of 3 * 5 - 7 is its second step, that of 3 + 5 + 7 its first."""
    domain, problem = CountdownDomain.tiny(), Problem((3, 5, 7), 22)

    def pairs(right, wrong):
        rows = [row(label="right", completion=text, problem=problem.key) for text in right]
        rows += [row(label="wrong", completion=text, problem=problem.key, reward=0.0) for text in wrong]
        found = stepwise(rows, PROVER, domain, {problem.key: problem}, 0)
        return [(pair["before"], pair["completion"], pair["rejected"]) for pair in found]

    assert pairs(["3 * 5 + 7"], ["3 * 5 - 7"]) == [("3 * 5", " + 7", " - 7")]
    assert pairs(["3 * 5 + 7"], ["3 + 5 + 7"]) == [("", "3 * 5", "3 + 5")]
    assert pairs(["7 + 3 * 5"], ["3 * 5 - 7"]) == []  # no right answer begins with 3 * 5
    assert pairs(["3 * 5 + 7"], ["3 *", "7"]) == [] and pairs([], ["3 + 5 + 7"]) == []


def test_the_baselines_know_answers_alone():
    found = IteratedSettings("x", algorithm="expert_iteration").kinds
    assert list(found) == ["prover"] and found["prover"].labels == ("right",)
    assert found["prover"].balance == 30_000  # 10,000 of each of three kinds (section 4.1)
    dpo = IteratedSettings("x", algorithm="dpo").kinds["prover"]
    assert (dpo.learning_rate, dpo.batch_size, IteratedSettings("x").beta) == ((1e-6,), (64,), 0.5)  # appendix B
    assert list(IteratedSettings("x", leave_out=["misleading"]).kinds) == ["prover", "helpful"]


def rates(recipe, *options):
    argv = ["--recipe", recipe, *options]
    _, settings, _ = parse_options("cdg", argv)
    return {kind: (role.learning_rate, role.batch_size, role.epochs) for kind, role in settings.kinds.items()}


@pytest.mark.parametrize("recipe", ["llama-3.1-8b/iterated_cdg", "qwen2.5-1.5b/iterated_cdg"])
def test_the_papers_recipes_train_each_algorithm_at_its_own_rates(recipe):
    """Appendix B: ReST 5e-6 and 32, then 1e-6 and 256, two epochs of the helpful critic; DPO 1e-6 and 64."""
    rest = (5e-6, 1e-6), (32, 256)
    assert rates(recipe) == {"prover": (*rest, 1), "helpful": (*rest, 2), "misleading": (*rest, 1)}
    assert set(rates(recipe, "--algorithm", "dpo").values()) == {((1e-6,), (64,), 1)}
    own = '{"prover": {"learning_rate": 1e-5}, "helpful": {}, "misleading": {}}'
    assert rates(recipe, "--algorithm", "dpo", "--role_training", own)["prover"] == ((1e-5,), (64,), 1)


def test_another_runs_budget_is_its_steps(tmp_path):
    lines = [
        {"iteration": 1, "phase": "play", "samples": 12, "counts": {}},
        {"iteration": 1, "phase": "train", "role": "prover", "rows": 9, "steps": 4},
        {"iteration": 2, "phase": "train", "role": "prover", "rows": 9, "steps": 7},
    ]
    (tmp_path / "iterations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert with_budget({"prover": RoleTraining()}, tmp_path, 2)["prover"].max_steps == (4, 7)
    lines = [{"iteration": 1, "phase": "train", "role": "helpful", "rows": 0, "note": "nothing was chosen"}]
    (tmp_path / "less").mkdir()
    (tmp_path / "less" / "iterations.jsonl").write_text(json.dumps(lines[0]) + "\n")
    assert with_budget({"helpful": RoleTraining()}, tmp_path / "less", 1)["helpful"].max_steps == (0,)
    with pytest.raises(ConfigError, match=r"tells of no training of the prover in iteration 3; name a run"):
        with_budget({"prover": RoleTraining()}, tmp_path, 3)
