# Tests: lab/arena/submission.py, lab/arena/job.py
"""`arena --submit` and `--verify`: real jobs on a track of two rounds, and what is refused."""

import json

import pytest
from tests.lab.arena.mini import write_mini

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.lab.arena import job, sets
from countdown_selfplay.lab.arena.contestants import entrant
from countdown_selfplay.lab.arena.job import Job
from countdown_selfplay.lab.arena.leaderboard import rules
from countdown_selfplay.lab.arena.schedule import Place, Schedule
from countdown_selfplay.lab.arena.tracks import load_track
from countdown_selfplay.lab.cli.arena import main, settings_from


@pytest.fixture(autouse=True)
def few_to_draw_from(monkeypatch):
    """Withheld problems are two of 64 in place of 4,096, which take a second to make."""
    monkeypatch.setattr(sets, "WITHHELD", 64)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The words of a command on the mini track, whose jobs are played in this process: a start of Python with torch
    takes longer than the job."""
    write_mini(tmp_path)

    def here(self, asked, run):
        words = ["--job", asked.track, asked.contestant, str(asked.seed), "--leaderboard"]
        main([*words, "--output", str(self.place.folder)])
        return "played"

    monkeypatch.setattr(Schedule, "_process", here)
    (tmp_path / "mine.yaml").write_text("proposer: uniform_rungs\nconjecturer_players: 0\n", encoding="utf-8")
    return ["--tracks", str(tmp_path / "mini.yaml"), "--output", str(tmp_path / "out"), "--workers", "1"]


def test_a_submission_is_a_row_and_its_replay_agrees_or_says_in_what_it_differs(mine, tmp_path, capsys):
    board = tmp_path / "out" / "leaderboard"
    assert main(["--submit", f"mine={tmp_path / 'mine.yaml'}", *mine]) == 0
    row = json.loads((board / "mine.json").read_text(encoding="utf-8"))
    # Nobody answers everything right after two rounds of 16 answers.
    assert row["answers"] == {"value": None, "each": [None]} and row["rounds"] == [2]
    assert [[p[:2] for p in points] for points in row["points"]] == [[[0, 0], [1, 16], [2, 32]]]
    assert row["command"].startswith("countdown-selfplay arena --submit mine=") and row["date"] and row["version"]
    assert "not reached" in capsys.readouterr().out and not list((board / "drawn").iterdir())
    with pytest.raises(ConfigError, match="is a row of mine already"):
        main(["--submit", f"mine={tmp_path / 'mine.yaml'}", *mine])
    assert main(["--verify", "mine", *mine]) == 0  # by the settings in its row
    assert "The replay of mine agrees" in capsys.readouterr().out
    row = json.loads((board / "mine.json").read_text(encoding="utf-8"))
    (verdict,) = row["verified"]
    assert verdict["agrees"] and not set(verdict["seeds"]) & set(row["seeds"])
    # A row that claims to have arrived; the replay was interrupted after its jobs, which are not played again.
    claimed = row | {"answers": {"value": 20.0, "each": [19.0, 21.0], "low": 7.3, "high": 32.7}}
    (board / "mine.json").write_text(json.dumps(claimed), encoding="utf-8")
    drawn = {"seeds": verdict["seeds"]} | {name: row[name] for name in ("settings", "start", "facts", "goal")}
    (board / "drawn" / "mine.verify.json").write_text(json.dumps(drawn), encoding="utf-8")
    assert main(["--verify", "mine", *mine]) == 1
    said = capsys.readouterr().out
    assert "submission needed 20 answers (19 / 21), and the replay more answers than its cap has" in said
    assert "differs" in said and "jobs to play" not in said
    (tmp_path / "mine.yaml").write_text("proposer: uniform_rungs\nprover_learning_rate: 0.1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.json was played with `settings\..*`"):
        main(["--verify", f"mine={tmp_path / 'mine.yaml'}", *mine])


def test_a_submission_with_a_failed_job_has_no_row_and_keeps_its_seeds(mine, tmp_path, capsys):
    track = load_track(str(tmp_path / "mini.yaml"))
    drawn = tmp_path / "out" / "leaderboard" / "drawn" / "plain.submit.json"
    drawn.parent.mkdir(parents=True)
    drawn.write_text(json.dumps({"seeds": [5], **rules(entrant("plain"), track)}), encoding="utf-8")
    failed = Place(tmp_path / "out", "leaderboard").failed("mini", "plain", 5)
    failed.parent.mkdir(parents=True)
    failed.write_text('{"exit_code": 1, "said": "out of memory"}', encoding="utf-8")
    assert main(["--submit", "plain", *mine]) == 1
    assert "plain, seed 5, failed: out of memory; the same command goes on" in capsys.readouterr().out
    assert drawn.exists() and not (tmp_path / "out" / "leaderboard" / "plain.json").exists()
    drawn.write_text(drawn.read_text(encoding="utf-8").replace('"seed": 0', '"seed": 9'), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"plain\.submit\.json was played with `settings\.seed` 9, and now it is 0"):
        main(["--submit", "plain", *mine])


def test_a_run_ends_at_the_first_measuring_point_that_has_the_rate(tmp_path, monkeypatch):
    goal = {"rung": 4, "rate": 0.5, "problems": 2, "samples": 2, "every": 1, "rounds": 3, "seeds": 2}
    track = write_mini(tmp_path, goal=goal)
    measured = job.measured

    def rising(trainer, problems, n, what):
        """Nothing is right at the start, everything after a round."""
        found = measured(trainer, problems, n, what)
        found.correct[:] = [n * min(trainer.counts.rounds, 1)] * len(found.correct)
        return found

    monkeypatch.setattr(job, "measured", rising)
    found = Job(track, entrant("random"), 7, tmp_path / "run", settings_from, "leaderboard").play()
    assert [point["round"] for point in found["points"]] == [0, 1]  # of three rounds
    # One half is half of the way from 0 to 1, so half of the 16 answers.
    assert found["arrived"]["answers"] == 8 and found["arrived"]["round"] == 0.5
    assert found["measured_on"] == "withheld" and found["goal"] == goal
