# Tests: studies/gym_levels.py
"""The study of levels in small: a start of four steps, two rounds of every arm, and the table."""

import json
from collections import Counter

import pytest

pytest.importorskip("reasoning_gym", reason="needs the extra gym: pip install 'countdown-selfplay[gym]'")

import gym_levels

ARMS = ["start", "uniform", "bandit", "half"]


def test_two_rounds_of_every_arm_and_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(gym_levels, "SHOWN", {0: 40, 1: 40, 2: 7, 3: 2})
    monkeypatch.setattr(gym_levels, "EACH", {False: 9, True: 3})
    gym_levels.warm_start(tmp_path, 4)
    for arm in ARMS:
        gym_levels.run((arm, 1, tmp_path, 2, False))
    gym_levels.run(("uniform", 1, tmp_path, 2, False))  # finished: it is read
    text = gym_levels.table(tmp_path, ARMS, [1])
    domain = gym_levels.played()
    shown = [json.loads(line) for line in (tmp_path / "shown.jsonl").read_text().splitlines()]
    assert Counter(sum(row["levels"]) for row in shown) == gym_levels.SHOWN
    measured = {domain.key(p) for tuning in (False, True) for p in gym_levels.measured(domain, tuning)}
    assert not measured & {domain.key(domain.problem(row)) for row in shown}
    domain.close()
    gym_levels.played.cache_clear()
    cost = {arm: json.loads((tmp_path / arm / "seed-1" / "evaluation.json").read_text())["cost"] for arm in ARMS}
    # two rounds of 48 problems x 8 answers; in the first the oracle measures 16 problems of each of 4 levels, x 8
    assert [one["answers"] for one in cost.values()] == [0, 768, 768, 768]
    assert [one["probe_answers"] for one in cost.values()] == [0, 0, 0, 512]
    arms = json.loads((tmp_path / "counts.json").read_text())["arms"]
    assert list(arms) == ARMS
    assert all(len(row["correct"]) == 4 * 9 and row["n"] == 8 for (row,) in arms.values())
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    names = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert names[1:5] == ARMS
    assert names[5:8] == [f"{arm} less uniform" for arm in ("start", "bandit", "half")]
    # all problems, four levels, three tasks
    assert rows[1].count(" | ") == 8
