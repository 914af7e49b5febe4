# Tests: lab/arena/leaderboard.py
"""The leaderboard's figures, worked out by hand: where the rate is reached, which replay agrees, the table."""

import json

import pytest

from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.lab.arena.contestants import contestants
from countdown_selfplay.lab.arena.leaderboard import (
    arrived,
    check_rules,
    check_table,
    disagreement,
    goal_of,
    markdown,
    predicted,
    read_rows,
    row_of,
    rules,
)
from countdown_selfplay.lab.arena.tracks import load_track

LADDER = load_track("ladder")


def point(at, rate):
    return {"round": at, "answers": 512 * at, "cpu_seconds": float(at), "rate": rate, "tokens": at, "updates": at}


def jobs(*answers, name="bandit"):
    """Jobs that arrived after so many answers; None: not within one point."""
    found = []
    for seed, own in enumerate(answers, 1):
        one = None if own is None else {"answers": own, "cpu_seconds": own / 512, "round": own / 512}
        found.append({"seed": seed, "arrived": one, "points": [point(15, 0.1)], "machine": MACHINE, "changes": {}})
    return found


MACHINE = {"processor": "x86_64", "cores": 2, "threads": 1, "torch": "2.13.0"}


def row(*answers, name="bandit", **more):
    return row_of(jobs(*answers), contestants()[name], LADDER) | more


def test_a_row_has_the_mean_and_interval_of_where_the_rate_is_reached_between_two_points():
    points = [point(0, 0.0), point(15, 0.16), point(30, 0.24), point(45, 0.1)]
    # .20 is half of the way from .16 to .24: half of the way from 15 x 512 = 7,680 to 30 x 512 = 15,360 answers
    assert arrived(points, 0.20) == {"answers": 11520.0, "cpu_seconds": 22.5, "round": 22.5}
    assert arrived(points, 0.24)["answers"] == 15360  # the point itself
    assert arrived(points, 0.0)["answers"] == 0  # before any training
    assert arrived(points, 0.25) is None and arrived([], 0.25) is None
    found = row(100.0, 110.0, 120.0)
    # s = 10, t(.975, 2) = 4.303: 110 -+ 4.303 x 10 / sqrt(3) = 110 -+ 24.8
    assert found["answers"] == {"value": 110.0, "each": [100.0, 110.0, 120.0], "low": 85.2, "high": 134.8}
    assert found["seeds"] == [1, 2, 3] and found["goal"]["rate"] == 0.2 and found["goal"]["rung"] == 6
    late = row(100.0, None, 120.0)
    assert late["answers"] == {"value": None, "each": [100.0, None, 120.0]}
    assert late["rounds"][1] == 15 and late["cpu_seconds"]["each"][1] == 15.0  # those of the whole run


def test_a_replay_agrees_within_the_prediction_interval_or_if_neither_is_reached():
    # 110 -+ 4.303 x 10 x sqrt(1/3 + 1/3) = 110 -+ 35.1
    assert predicted([100, 110, 120], 3) == pytest.approx((74.9, 145.1), abs=0.05)
    mine = row(100.0, 110.0, 120.0)
    assert disagreement(mine, row(130.0, 145.0, 160.0)) == ""  # mean 145
    assert disagreement(mine, row(74.0, 75.0, 76.0)) == ""
    said = disagreement(mine, row(131.0, 146.0, 161.0))
    assert "needed 110 answers (100 / 110 / 120), and the replay 146 answers" in said and "[75, 145]" in said
    assert disagreement(mine, row(74.0, 74.0, 74.0)) != ""
    mine, late = row(100.0, 110.0, 120.0), row(None, 100.0, None)
    assert disagreement(late, row(None, None, 300.0)) == ""
    assert "the replay more answers than its cap has (not reached / 100 / not reached)" in disagreement(mine, late)
    assert "submission needed more answers" in disagreement(late, mine)
    assert goal_of(LADDER).rounds == 600 and "goal" not in LADDER.facts
    with pytest.raises(ConfigError, match="track long has no `goal`"):
        goal_of(load_track("long"))


@pytest.mark.parametrize(("part", "name", "value"), [
    ("settings", "prover_learning_rate", 1e-9),
    ("facts", "samples", 4),
    ("goal", "rate", 0.1),
    ("start", "sha256", "0"),
])  # fmt: skip
def test_other_settings_tracks_goals_and_starts_are_refused_with_the_difference(part, name, value):
    now = rules(contestants()["bandit"], LADDER)
    check_rules(row(1.0, 2.0, 3.0), now, "bandit.json")
    other = row(1.0, 2.0, 3.0)
    other[part] = other[part] | {name: value}
    with pytest.raises(ConfigError, match=rf"`{part}.{name}` {value}, and now it is"):
        check_rules(other, now, "bandit.json")


def test_the_table_has_the_baseline_as_row_0_and_the_others_by_their_answers(tmp_path):
    own = {
        "plain": row(900.0, 1000.0, 1100.0, name="plain", command="arena --submit plain", date="2026-11-25"),
        "bandit": row(100.0, 110.0, 120.0, verified=[{"agrees": False}, {"agrees": True}]),
        "trained": row(90.0, 100.0, 110.0, name="trained", verified=[{"agrees": False}]),
        "frozen": row(None, 1.0, None, name="frozen"),
    }
    for name, one in own.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(one), encoding="utf-8")
    rows = read_rows(tmp_path)
    assert [one["contestant"] for one in rows] == ["plain", "trained", "bandit", "frozen"]
    lines = markdown(rows).splitlines()
    plain = "| 0 | plain: plain RLOO on the task | 1,000 | 752 to 1,248 | 900 / 1,000 / 1,100 | 2 |"
    assert lines[2].startswith(plain)
    assert lines[3].startswith("| 1 | trained: ") and "| differs |" in lines[3]
    assert lines[4].startswith("| 2 | bandit: ") and "| agrees |" in lines[4] and "| not yet |" in lines[2]
    assert "| not reached |  | – / 1 / – |" in lines[5] and lines[-1] == "- plain: `arena --submit plain`"
    assert markdown([]) == "Nothing has been submitted yet."
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="remove it, and submit again"):
        read_rows(tmp_path)


def test_a_row_beside_those_of_another_track_is_refused_and_so_is_one_that_lacks_a_figure(tmp_path):
    now, file = rules(contestants()["plain"], LADDER), tmp_path / "bandit.json"
    file.write_text(json.dumps(row(1.0, 2.0, 3.0)), encoding="utf-8")
    check_table(tmp_path, now)
    with pytest.raises(ConfigError, match=r"bandit\.json was played with `goal.rung` 6, and now it is 7; one table"):
        check_table(tmp_path, now | {"goal": now["goal"] | {"rung": 7}})
    file.write_text(json.dumps(row(1.0, 2.0, 3.0) | {"answers": {"each": []}}), encoding="utf-8")
    with pytest.raises(DataError, match=r"does not say all that the leaderboard prints .*value.*submit again"):
        read_rows(tmp_path)
