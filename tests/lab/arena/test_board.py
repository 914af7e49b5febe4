# Tests: lab/arena/board.py, lab/arena/__init__.py, lab/arena/leaderboard.py
"""Standings and leaderboard of jobs whose figures are worked out by hand."""

import json

import pytest

from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.lab.arena import board, leaderboard
from countdown_selfplay.lab.arena.contestants import contestants
from countdown_selfplay.lab.arena.leaderboard import arrived, disagreement, read_rows, rules
from countdown_selfplay.lab.arena.tracks import load_track

from .mini import job, write_mini


@pytest.fixture
def track(tmp_path):
    return write_mini(tmp_path)


@pytest.fixture
def folder(tmp_path):
    own = tmp_path / "jobs"
    own.mkdir()
    return own


def put(folder, found):
    (folder / f"{found['contestant']}-{found['seed']}.json").write_text(json.dumps(found), encoding="utf-8")


def test_p_values_are_adjusted_over_the_family_and_sizes_are_means_over_seeds(track, folder):
    put(folder, job(track, "plain", 1, [2, 2, 1, 0], proposed={"3": [4, 0], "4": [0, 2]}))
    put(folder, job(track, "plain", 2, [2, 2, 1, 0], proposed={"3": [2, 4]}))
    (row,) = board.standings(folder, track)["rows"]
    assert row["proposed"] == {"3": [3.0, 2.0], "4": [0.0, 1.0]}
    for name, correct in (("plain", [0, 0, 1, 0]), ("random", [0, 0, 0, 1]), ("trained", [0, 0, 2, 2])):
        for seed in (1, 2, 3):
            put(folder, job(track, name, seed, correct))
    rows = board.standings(folder, track)["against_best"]
    assert len(rows) == 4  # two contestants and two metrics
    smallest = min(rows, key=lambda row: row["p"])
    assert smallest["p_holm"] == pytest.approx(min(1.0, 4 * smallest["p"]), abs=1e-4)  # Holm: the smallest of four


def test_one_seed_has_no_test_and_more_answers_or_updates_no_rank(track, folder):
    put(folder, job(track, "plain", 1, [2, 2, 1, 0]))
    put(folder, job(track, "trained", 1, [0, 0, 2, 2]))
    found = board.standings(folder, track)
    assert found["against_best"] == [] and "low" not in found["rows"][0]["score"]["pass@1"]
    assert "trained" in board.as_text(found)
    put(folder, job(track, "trained", 1, [2, 2, 2, 2], answers=64))
    put(folder, job(track, "frozen", 1, [2, 2, 2, 2], updates=3))
    put(folder, job(track, "oracle", 1, [2, 2, 2, 2], answers=64, uncounted_answers=32))  # a reference
    found = {row["contestant"]: row["not_ranked"] for row in board.standings(folder, track)["rows"]}
    assert found == {"plain": "", "oracle": "", "trained": "took 64 answers of 32", "frozen": "took 3 updates of 2"}


@pytest.mark.parametrize(("name", "held", "said"), [
    ("foo.failed.json", {"said": "x"}, r"is not the file of a job, CONTESTANT-SEED\.failed\.json; remove it"),
    ("plain-1.json", {"curve": []}, r"does not say all that the tables print \(IndexError"),
    ("plain-1.json", {"tokens": "many"}, "does not say all that the tables print"),
])  # fmt: skip
def test_files_of_others_in_the_folder_are_one_sentence(track, folder, name, held, said):
    whole = job(track, "plain", 1, [2, 2, 1, 0]) if name == "plain-1.json" else {}
    (folder / name).write_text(json.dumps(whole | held), encoding="utf-8")
    with pytest.raises((ConfigError, DataError), match=said):
        board.standings(folder, track)


def test_failed_jobs_take_their_row_unless_they_were_played_again(track, folder):
    put(folder, job(track, "plain", 1, [2, 2, 1, 0]))
    (folder / "plain-1.failed.json").write_text('{"exit_code": 2, "said": "full"}', encoding="utf-8")
    assert board.standings(folder, track)["failed"] == []
    (folder / "trained-1.failed.json").write_text('{"exit_code": 2, "said": "no such reward"}', encoding="utf-8")
    found = board.standings(folder, track)
    assert found["failed"] == [{"contestant": "trained", "seed": 1, "exit_code": 2, "said": "no such reward"}]
    assert "trained seed 1 failed: no such reward" in board.as_text(found)
    assert [row["contestant"] for row in found["rows"]] == ["plain"]


@pytest.mark.parametrize(("name", "value", "said"), [
    ("answers", 99, r"`answers` 99, and on the track mini it is 32"),
    ("samples", 4, r"`samples` 4, and on the track mini it is 2"),
    ("fixed.number_high", 9, r"`fixed.number_high` 9, and on the track mini it is 12"),
    ("sets.held_out.sha256", "0", r"`sets.held_out.sha256` 0"),
])  # fmt: skip
def test_jobs_of_another_budget_rule_or_problem_set_are_refused(track, folder, name, value, said):
    facts = json.loads(json.dumps(track.facts))
    *within, last = name.split(".")
    held = facts
    for key in within:
        held = held[key]
    held[last] = value
    put(folder, job(track, "plain", 1, [2, 2, 1, 0], facts=facts))
    with pytest.raises(ConfigError, match=said):
        board.standings(folder, track)


def test_jobs_of_tuning_other_settings_or_names_and_damaged_ones_are_refused(track, folder):
    put(folder, job(track, "plain", 1, [2, 2, 1, 0], measured_on="tuning"))
    with pytest.raises(ConfigError, match="tuning runs are in no table"):
        board.standings(folder, track)
    put(folder, job(track, "plain", 1, [2, 2, 1, 0], changes={"proposer": "mine"}))
    with pytest.raises(ConfigError, match=r"played by a plain with `.*` .*, and now it has"):
        board.standings(folder, track)
    put(folder, job(track, "plain", 1, [2, 2, 1]))
    with pytest.raises(DataError, match="has 3 counts"):
        board.standings(folder, track)
    (folder / "plain-1.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="played again"):
        board.standings(folder, track)
    put(folder, job(track, "mine", 1, [2, 2, 1, 0], changes={"proposer": "a"}))
    put(folder, job(track, "mine", 2, [2, 2, 1, 0], changes={"proposer": "b"}))
    with pytest.raises(ConfigError, match=r"mine-2\.json was played by a mine with `proposer` b, and now it has a"):
        board.read(folder, track)
    (folder / "mine-2.json").unlink()
    (folder / "mine-3.json").write_text((folder / "mine-1.json").read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine-3\.json holds the job of mine with seed 1"):
        board.read(folder, track)


def test_a_score_is_the_mean_over_the_scored_problems_and_seeds_and_a_collapse_keeps_its_row(track, folder):
    before = {"round": 0, "answers": 0, "cpu_seconds": 0.0, "by_rung": {"3": [0.5, 1.0], "4": [0.0, 0.0]}}
    for name, correct in (("plain", [1, 0, 0, 0]), ("trained", [0, 0, 0, 0])):
        found = job(track, name, 1, correct)
        put(folder, found | {"curve": [before, *found["curve"]]})
    found = board.standings(folder, track)
    assert found["collapsed"] == [{"contestant": "trained", "seed": 1}] and len(found["rows"]) == 2
    assert "trained seed 1 collapsed" in board.as_text(found)
    # Problems of size 4, the scored one, are the last two; n = 2, so pass@1 = c / 2 and pass@2 = 1 if c > 0.
    put(folder, job(track, "plain", 1, [2, 2, 1, 0]))  # pass@1 1/4, pass@2 1/2
    put(folder, job(track, "plain", 2, [2, 2, 2, 1]))  # pass@1 3/4, pass@2 1
    for seed in (1, 2):
        put(folder, job(track, "trained", seed, [0, 0, 2, 2]))
    found = board.standings(folder, track)
    assert [row["contestant"] for row in found["rows"]] == ["trained", "plain"] and found["best_control"] == "plain"
    trained, plain = (row["score"] for row in found["rows"])
    assert (plain["pass@1"]["value"], plain["pass@1"]["least"], plain["pass@1"]["most"]) == (0.5, 0.25, 0.75)
    assert plain["pass@2"]["value"] == 0.75 and trained["pass@1"]["value"] == trained["pass@2"]["value"] == 1.0
    of = {row["metric"]: row for row in found["against_best"]}
    assert of["pass@1"]["difference"] == 0.5 and of["pass@2"]["difference"] == 0.25
    assert found["rows"][1]["by_rung"] == {"3": [1.0, 1.0], "4": [0.5, 0.5]}
    assert found["rows"][1]["seeds"] == [1, 2] and found["rows"][1]["tokens"] == 100.0


def test_over_a_plane_every_point_has_places_bands_and_comparisons(tmp_path, folder):
    """Two problems of each rung, one a band; the scored rung is 4, the last two of each point's counts."""
    track = write_mini(tmp_path, bands={"target": ["1-5", "51-99"]})
    right = {"trained": ([0, 0, 2, 1], [0, 0, 1, 0]), "plain": ([2, 2, 1, 0], [2, 2, 2, 2])}
    for name, counts in right.items():
        for seed in (1, 2):
            found = job(track, name, seed, counts[1])
            (end,) = found["curve"]
            each = zip(range(3), (counts[0], *counts), strict=True)
            found["curve"] = [end | {"round": at, "answers": 16 * at, "correct": own} for at, own in each]
            put(folder, found)
    found = board.standings(folder, track)
    first, last = found["points"]
    assert (first["answers"], last["answers"]) == (16, 32)
    score = lambda point, name: [point["rows"][name]["score"][k]["value"] for k in ("pass@1", "pass@2")]  # noqa: E731
    assert score(first, "trained") == [0.75, 1.0] and score(first, "plain") == [0.25, 0.5]
    assert score(last, "trained") == [0.25, 0.5] and score(last, "plain") == [1.0, 1.0]
    assert [point["rows"]["trained"]["place"]["pass@1"] for point in (first, last)] == [1, 2]  # a lead that ends
    assert first["rows"]["trained"]["by_band"]["pass@1"] == {"1-5": 1.0, "51-99": 0.5}
    of = {(row["contestant"], row["metric"]): row["difference"] for row in last["pairs"]}
    assert of == {("trained", "pass@1"): -0.75, ("trained", "pass@2"): -0.5}
    text = board.as_text(found)
    assert "trained  0.750 (1)  0.250 (2)" in text and "1.000   0.500" not in text and "trained - plain" in text


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
    return leaderboard.row_of(jobs(*answers), contestants()[name], LADDER) | more


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
    assert leaderboard.predicted([100, 110, 120], 3) == pytest.approx((74.9, 145.1), abs=0.05)
    mine, late = row(100.0, 110.0, 120.0), row(None, 100.0, None)
    assert disagreement(mine, row(130.0, 145.0, 160.0)) == ""  # mean 145
    assert disagreement(mine, row(74.0, 75.0, 76.0)) == ""
    said = disagreement(mine, row(131.0, 146.0, 161.0))
    assert "needed 110 answers (100 / 110 / 120), and the replay 146 answers" in said and "[75, 145]" in said
    assert disagreement(mine, row(74.0, 74.0, 74.0)) != ""
    assert disagreement(late, row(None, None, 300.0)) == ""
    assert "the replay more answers than its cap has (not reached / 100 / not reached)" in disagreement(mine, late)
    assert "submission needed more answers" in disagreement(late, mine)
    assert leaderboard.goal_of(LADDER).rounds == 600 and "goal" not in LADDER.facts
    with pytest.raises(ConfigError, match="track long has no `goal`"):
        leaderboard.goal_of(load_track("long"))


@pytest.mark.parametrize(("part", "name", "value"), [
    ("settings", "prover_learning_rate", 1e-9), ("facts", "samples", 4), ("goal", "rate", 0.1),
    ("start", "sha256", "0"),
])  # fmt: skip
def test_other_settings_tracks_goals_and_starts_are_refused_with_the_difference(part, name, value):
    now = rules(contestants()["bandit"], LADDER)
    leaderboard.check_rules(row(1.0, 2.0, 3.0), now, "bandit.json")
    other = row(1.0, 2.0, 3.0)
    other[part] = other[part] | {name: value}
    with pytest.raises(ConfigError, match=rf"`{part}.{name}` {value}, and now it is"):
        leaderboard.check_rules(other, now, "bandit.json")


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
    lines = leaderboard.markdown(rows).splitlines()
    assert lines[2].startswith("| 0 | plain: ") and "| 1,000 | 752 to 1,248 |" in lines[2]
    assert "| differs |" in lines[3] and "| agrees |" in lines[4] and "| not reached |" in lines[5]
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match="remove it, and submit again"):
        read_rows(tmp_path)


def test_a_row_beside_those_of_another_track_is_refused_and_so_is_one_that_lacks_a_figure(tmp_path):
    now, file = rules(contestants()["plain"], LADDER), tmp_path / "bandit.json"
    file.write_text(json.dumps(row(1.0, 2.0, 3.0)), encoding="utf-8")
    leaderboard.check_table(tmp_path, now)
    with pytest.raises(ConfigError, match=r"bandit\.json was played with `goal.rung` 6, and now it is 7; one table"):
        leaderboard.check_table(tmp_path, now | {"goal": now["goal"] | {"rung": 7}})
    file.write_text(json.dumps(row(1.0, 2.0, 3.0) | {"answers": {"each": []}}), encoding="utf-8")
    with pytest.raises(DataError, match=r"does not say all that the leaderboard prints .*value.*submit again"):
        read_rows(tmp_path)
