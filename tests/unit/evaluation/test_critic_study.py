"""Tables of the critic game's study from figures written by hand."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.evaluation.critics.figures import prover_figures
from countdown_selfplay.evaluation.critics.policy import Reply
from countdown_selfplay.evaluation.critics.steps import StepItem
from countdown_selfplay.evaluation.critics.study import arm_table, has_pattern, meeting_table


def test_the_pattern_of_section_5_4_is_about_the_trained_players():
    """Figure 4: prover 2 resists critic 1 best, prover 1 resists critic 2 worst; the untrained ones do not count."""
    assert has_pattern(np.array([[0.99, 0.9, 0.9], [0.0, 0.5, 0.2], [0.0, 0.6, 0.4]]))
    assert not has_pattern(
        np.array([[0.9, 0.9, 0.9], [0.9, 0.7, 0.2], [0.9, 0.6, 0.4]])
    )  # prover 1 resists critic 1 better
    assert not has_pattern(
        np.array([[0.9, 0.9, 0.9], [0.9, 0.5, 0.4], [0.9, 0.6, 0.3]])
    )  # prover 2 resists critic 2 worse


def test_differences_are_taken_seed_by_seed_with_students_interval():
    """Differences .1, .2, .3: mean .2, s = .1, t(.975, 2) = 4.3027, half width 4.3027 * .1 / sqrt(3) = .248."""
    values = {"start": {"pass@1": [0.1, 0.1, 0.1]}, "cdg": {"pass@1": [0.2, 0.3, 0.4]}}
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert f"| cdg | +0.200 [{0.2 - half:+.3f}, {0.2 + half:+.3f}] |" in arm_table(values, "start")
    assert "| start |" not in arm_table(values, "start") and "| start | 0.100 [0.100, 0.100] |" in arm_table(
        values, None
    )
    sure = {"start": {"x": [0.0, 0.0]}, "a": {"x": [0.1, 0.1]}}
    assert "**+0.100**" in arm_table(sure, "start") and "| a | +0.100 |" in arm_table(
        {"start": {"x": [0]}, "a": {"x": [0.1]}}, "start"
    )


def test_matrices_are_means_over_seeds():
    def result(*values):
        cells = [
            {
                "prover": p,
                "critics": c,
                **{name: {"value": v} for name in ("corrected", "resisted", "stands", "misled")},
            }
            for (p, c), v in zip([("start", "start"), ("start", "1"), ("1", "start"), ("1", "1")], values, strict=True)
        ]
        return {"provers": ["start", "1"], "critics": ["start", "1"], "cells": cells}

    text = meeting_table([result(0.0, 0.2, 0.4, 0.6), result(0.2, 0.4, 0.6, 1.0)])
    assert "| start | 10.0% | 30.0% |" in text and "| 1 | 50.0% | 80.0% |" in text
    assert "in resisted: 0 of 2 seeds" in text  # with one trained prover and critic there is nothing to compare


def test_a_provers_figures_are_those_of_its_texts():
    """Greedy: 3 * 5 + 7 = 22 right, 2 + 2 + 2 = 6 is not 5. Of the votes 2 of 3 are right for both problems."""
    domain = CountdownDomain.tiny()
    problems = [Problem((3, 5, 7), 22), Problem((2, 2, 1), 5)]
    right, wrong = {22: "3 * 5 + 7", 5: "2 + 2 + 1"}, {22: "3 + 5 + 7", 5: "2 * 2 * 1"}

    def policy(rows, n, seed, greedy):
        found = []
        for row in rows:
            target = row["target"]
            if "again" in row["prompt"]:
                found.append([Reply("right")])
            elif greedy:
                found.append([Reply(right[22] if target == 22 else wrong[5])])
            else:
                found.append([Reply(right[target]), Reply(right[target]), Reply(wrong[target])])
        return found

    items = [StepItem(problems[0], wrong[22], 1, "3 + 5", True), StepItem(problems[0], right[22], 1, "3 * 5", False)]
    found = prover_figures(policy, domain, problems, items, votes=3)
    assert (found["pass@1"]["value"], found["majority@3"]["value"]) == (0.5, 1.0)
    assert found["error_detection"]["accuracy"]["value"] == pytest.approx(0.5)  # it calls every step right


def test_the_arms_on_pairs_keep_the_recipes_balance(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[3] / "examples"))
    roles = importlib.import_module("critic_discernment").on_pairs()
    assert all((role["learning_rate"], role["batch_size"]) == (3e-5, 64) for role in roles.values())
    assert {kind: role["num_generations"] for kind, role in roles.items()} == {
        "prover": 4, "helpful": 8, "misleading": 4,
    }  # fmt: skip
    assert roles["prover"]["balance"] == 1000 and "balance" not in roles["helpful"]
