# Tests: lab/critics/error_detection.py, lab/critics/win_rates.py
"""Tables of the critic game's study from figures written by hand, and what its program refuses."""

import json

import critic_discernment as study
import numpy as np
import pytest
from critic_tables import arm_table, has_pattern
from many_runs import finish, run_folder

from countdown_selfplay.errors import DataError


def result_of(matrix):
    """What win_rates found, every rate alike."""
    names = ["start", *map(str, range(1, len(matrix)))]
    rates = ("corrected", "resisted", "stands", "misled")
    cells = [
        {"prover": p, "critics": c, **dict.fromkeys(rates, None if matrix[i][j] is None else {"value": matrix[i][j]})}
        for i, p in enumerate(names)
        for j, c in enumerate(names)
    ]
    return {"provers": names, "critics": names, "cells": cells}


def test_differences_have_students_interval_and_the_pattern_of_section_5_4_is_about_trained_players():
    """Differences .1, .2, .3: mean .2, s = .1, t(.975, 2) = 4.3027, half width 4.3027 * .1 / sqrt(3) = .248."""
    values = {"start": {"pass@1": [0.1, 0.1, 0.1]}, "cdg": {"pass@1": [0.2, 0.3, 0.4]}}
    assert "| cdg | +0.200 [-0.048, +0.448] |" in arm_table(values, "start")
    assert "| start | 0.100 [0.100, 0.100] |" in arm_table(values, None)
    # Figure 4: prover 2 resists critic 1 best, prover 1 resists critic 2 worst; the untrained ones do not count.
    for (a, b, c, d), holds in {(5, 2, 6, 4): True, (7, 2, 6, 4): False, (5, 4, 6, 3): False}.items():
        assert has_pattern(np.array([[9.9, 9, 9], [0, a, b], [0, c, d]])) == holds


def test_figures_that_are_means_over_problems_have_intervals_over_problems_too():
    """Both seeds solve problems 1 and 3 of four that the control never solves: no noise of training, and the mean of
    four draws from 1, 0, 1, 0 is 0 or 1 with 1 in 16 each, more than 2.5%, so [0, 1]. Where all problems are solved by
    both seeds, and none by the control, at most w = z^2 / (4 + z^2) = .4899 of others differ from that, by 2: 1 - 2 w
    is .020."""
    values = {"start": {"x": [0.0, 0.0], "y": [0.0, 0.0]}, "a": {"x": [0.5, 0.5], "y": [1.0, 1.0]}}
    never = [[0.0] * 4] * 2
    problems = {"start": {"x": never, "y": never}, "a": {"x": [[1.0, 0.0, 1.0, 0.0]] * 2, "y": [[1.0] * 4] * 2}}
    text = arm_table(values, "start", problems)
    assert "| a | +0.500 [+0.000, +1.000] | +1.000 [+0.020, +1.000] |" in text
    assert "1 of 2 intervals leave out 0" in text
    assert "| a | 0.500 [0.500, 0.500] | 1.000" in arm_table(values, None, problems)


SETTINGS = {"problems": 48, "warm_start": "0123"}


def figures(pass_1, change):
    def value(x):
        return {"value": x, "low": x, "high": x}

    return {
        "pass@1": value(pass_1), "majority@8": value(0.5), "majority@32": value(0.6),
        "error_detection": {"f1": value(0.7), "accuracy": None},
        "self_correction": {"right_to_wrong": None, "wrong_to_right": value(0.1), "change": {"difference": change}},
        "per_problem": {"pass@1": [pass_1, pass_1]},
        "settings": SETTINGS,
    }  # fmt: skip


def test_the_tables_of_a_study(tmp_path):
    """pass@1 .3 and .5 after .1 and .1: +.2 and +.4, mean +.3. Average of cdg's first seed (.3 + .7 + .2) / 3 = .4, of
    its second (.5 + .7 + .6) / 3 = .6."""
    for seed, (before, after, change) in enumerate([(0.1, 0.3, 0.2), (0.1, 0.5, 0.6)]):
        finish(run_folder(tmp_path, "start", seed), figures(before, 0.0), study.FIGURES)
        rates = {"win_rates": result_of([[0.1, 0.2], [0.3, 0.4]])}
        finish(run_folder(tmp_path, "cdg", seed), figures(after, change) | rates, study.FIGURES)
    text = study.tables(tmp_path, ["start", "cdg"], [0, 1])
    values = json.loads((tmp_path / "study.json").read_text())
    assert values["cdg"]["average"] == pytest.approx([0.4, 0.6]) and values["cdg"]["majority@32"] == [0.6, 0.6]
    assert "| cdg | 0.400 [" in text and "| 0.700 [0.700, 0.700] | - | - |" in text  # no judged step, no right answer
    assert "Difference to the warm start" in text and "| cdg | +0.300 [" in text and "| start | -0.300 [" in text
    assert study.NOTE in text and "| resisted: prover | critics start | critics 1 |" in text


def test_a_budget_of_a_half_played_game_and_runs_of_other_sizes_are_refused(tmp_path):
    run_folder(tmp_path, "cdg", 0).mkdir(parents=True)  # begun
    with pytest.raises(DataError, match=r"\(online\) is measured by the budget of cdg, which is not finished for"):
        study.check_budget(tmp_path, ["start", "online"], [0])
    study.check_budget(tmp_path, ["start"], [0])
    study.check_budget(tmp_path, ["cdg", "online"], [0])  # cdg is finished first
    finish(run_folder(tmp_path, "cdg", 0), figures(0.1, 0.1), study.FIGURES)
    study.check_budget(tmp_path, ["online"], [0])
    finish(tmp_path, {"settings": SETTINGS}, "prepared.json")
    study.prepare(tmp_path, tmp_path / "no model", SETTINGS)
    with pytest.raises(DataError, match="warm_start 0123"):
        study.prepare(tmp_path, tmp_path / "no model", SETTINGS | {"warm_start": "4567"})
    finish(run_folder(tmp_path, "ppo", 0), figures(0.1, 0.1), study.FIGURES)
    study.run(("ppo", 0, str(tmp_path), "no model", SETTINGS))  # finished: nothing to do
    with pytest.raises(DataError, match="problems 48"):
        study.run(("ppo", 0, str(tmp_path), "no model", SETTINGS | {"problems": 512}))
