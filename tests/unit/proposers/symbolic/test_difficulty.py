# Tests: proposers/symbolic/difficulty.py
"""Estimates of the solve rate: by rollouts, and by trees whose calibration is known."""

import json
import logging
import sys

import numpy as np
import pytest

from countdown_selfplay.countdown import CountdownDomain, generate_problems, solve
from countdown_selfplay.errors import MissingExtraError
from countdown_selfplay.proposers.symbolic.difficulty import (
    DIFFICULTIES,
    Predictor,
    auc,
    brier,
    calibration_error,
    measured_rates,
    platt,
    read_labels,
    reliability,
)
from countdown_selfplay.testing import ScriptedRound

DOMAIN = CountdownDomain.tiny()
PROBLEMS = generate_problems(30, DOMAIN.spec, seed=0, rules=DOMAIN.rules)


def every_second(role, row, i):
    """Right in samples 0, 2, 4, ... of problems with an even target, never of others; else well-formed and wrong."""
    problem = DOMAIN.problem(row)
    return solve(problem, DOMAIN.rules) if problem.target % 2 == 0 and i % 2 == 0 else str(problem.numbers[0])


def test_rollouts_count_full_rewards_alone_and_ask_for_no_more_than_fits():
    asked = ScriptedRound(every_second, {"prover": (8, 8)})
    found = DIFFICULTIES.make("rollout").estimate(asked, PROBLEMS, np.zeros((30, 0)))
    assert found.tolist() == [0.5 if problem.target % 2 == 0 else 0.0 for problem in PROBLEMS]
    assert len(asked.rows["prover"]) == 30
    # five answers of which samples 0, 2 and 4 are right
    assert max(measured_rates(asked, PROBLEMS, 5)) == 0.6
    two = ScriptedRound(every_second, {"prover/0": (8, 8), "prover/1": (8, 8)})
    assert max(measured_rates(two, PROBLEMS, 8)) == 0.5


def labelled(count, seed):
    """Features of which the first decides p, and rates of eight answers."""
    generator = np.random.default_rng(seed)
    features = generator.random((count, 4))
    p = 1 / (1 + np.exp(-6 * (features[:, 0] - 0.5)))
    return features, generator.binomial(8, p) / 8, p


def test_the_predictor_is_calibrated_on_new_problems_and_the_ensemble_less_sure_of_them():
    features, rate, _ = labelled(800, 0)
    predictor = Predictor()
    logged = predictor.learn(features, rate, 8)
    new, _, p = labelled(800, 1)
    found = predictor.predict(new)
    assert np.abs(found - p).mean() < 0.06 and calibration_error(found, p) < 0.04
    # on unseen labels: no better than the true p, whose Brier score is the mean of p (1 - p), and near to it
    assert (p * (1 - p)).mean() - 0.01 < logged["brier"] < (p * (1 - p)).mean() + 0.015
    assert logged["auc"] > 0.8


def test_without_labels_it_says_the_prior_and_without_its_library_the_extra(caplog, monkeypatch):
    predictor = Predictor()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert predictor.estimate(None, PROBLEMS, np.zeros((30, 4))).tolist() == [0.5] * 30
    assert len(caplog.records) == 1 and "has 0 labels and needs 50" in caplog.text
    few = labelled(49, 0)
    assert predictor.learn(*few[:2], 8) == {} and not predictor.model
    predictor.learn(few[0][:1], few[1][:1], 8)
    assert predictor.model
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match=r"countdown-selfplay\[symbolic\]"):
        Predictor()


def test_labels_are_read_from_a_file(tmp_path):
    file, rows = tmp_path / "rates.jsonl", []
    for i, p in enumerate(PROBLEMS):
        rows.append({"numbers": p.numbers, "target": p.target, "correct": i % 9, "attempts": 8})
    file.write_text("".join(json.dumps(row) + "\n" for row in rows * 2))
    features, rate, attempts = read_labels(str(file), DOMAIN)
    assert features.shape == (60, 21) and rate[:9].tolist() == [i / 8 for i in range(9)] and set(attempts) == {8}
    predictor = Predictor(str(file))
    predictor.estimate(ScriptedRound(every_second, {"prover": (8, 8)}), PROBLEMS, features[:30])
    assert len(predictor.rate_L) == 60 and predictor.model


def test_platt_brier_auc_and_reliability_by_hand():
    p, rate = np.array([0.2, 0.2, 0.9]), np.array([0.0, 0.5, 1.0])
    # single answers: .04 + 0, .09 + .25, .01 + 0
    assert brier(p, rate) == pytest.approx((0.04 + 0.34 + 0.01) / 3)
    # right answers: half of one at .2, one at .9; wrong: 1.5 at .2. (.5 x .75 + 1 x 1.5) / (1.5 x 1.5)
    assert auc(p, rate) == pytest.approx((0.5 * 0.75 + 1.5) / 2.25)
    assert auc(p, np.zeros(3)) is None
    assert reliability(p, rate) == [(2, pytest.approx(0.2), 0.25), (1, 0.9, 1.0)]
    assert calibration_error(p, rate) == pytest.approx((2 * 0.05 + 0.1) / 3)
    assert reliability(np.array([1.0]), np.array([1.0])) == [(1, 1.0, 1.0)]
    logit = np.linspace(-4, 4, 400)
    rate = 1 / (1 + np.exp(-(0.5 * logit - 1)))
    assert platt(logit, rate, np.full(400, 100.0)) == pytest.approx((0.5, -1), abs=0.01)
