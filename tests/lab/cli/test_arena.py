# Tests: lab/cli/arena.py, lab/arena/job.py, lab/arena/schedule.py, lab/arena/leaderboard.py
"""`countdown-selfplay arena`: real jobs on a track of two rounds, submissions, and what is refused."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tests.lab.arena.mini import write_mini

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.lab.arena import job, sets
from countdown_selfplay.lab.arena.contestants import entrant
from countdown_selfplay.lab.arena.leaderboard import rules
from countdown_selfplay.lab.arena.schedule import Asked, Place, Schedule
from countdown_selfplay.lab.arena.tracks import load_track
from countdown_selfplay.lab.cli.arena import main, settings_from


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("arena")


@pytest.fixture(scope="module")
def track(folder):
    return write_mini(folder)


def test_a_job_leaves_one_file_and_the_table_reads_it(track, folder, capsys):
    words = [str(folder / "mini.yaml"), "trained", "3"]
    assert main(["--job", *words, "--output", str(folder / "out")]) == 0
    found = json.loads((folder / "out" / "mini" / "trained-3.json").read_text(encoding="utf-8"))
    # Two rounds of 16 answers; two answers to each of two problems of the sizes 3 and 4. A round in which no group has
    # both right and wrong answers takes no step.
    assert (found["answers"], found["rounds"], found["n"], len(found["correct"])) == (32, 2, 2, 4)
    assert found["updates"] <= 2
    assert [point["round"] for point in found["curve"]] == [0, 1, 2] and found["facts"] == track.facts
    assert found["samples"] == 64  # the conjecturer wrote 16 a round
    assert sum(sum(own) for own in found["proposed"].values()) <= 32
    assert not (folder / "out" / "runs" / "mini-trained-3").exists()
    assert main(["--table", "--tracks", words[0], "--output", str(folder / "out")]) == 0
    assert "trained" in capsys.readouterr().out
    board = json.loads((folder / "out" / "standings.json").read_text(encoding="utf-8"))
    assert board["mini"]["rows"][0]["seeds"] == [3]


def test_an_interrupted_job_goes_on_and_ends_as_one_that_was_not(track, folder, monkeypatch):
    class Killed(Exception):
        pass

    whole = job.play(track, entrant("frozen"), 5, folder / "runs" / "a", settings_from)

    def killed(self, args, state, control, **more):
        if state.global_step == 2:  # the first round's checkpoint is there
            raise Killed

    monkeypatch.setattr(job.Watch, "on_step_end", killed)
    with pytest.raises(Killed):
        job.play(track, entrant("frozen"), 5, folder / "runs" / "b", settings_from)
    assert [path.name for path in (folder / "runs" / "b").glob("checkpoint-*")] == ["checkpoint-1"]
    monkeypatch.undo()
    again = job.play(track, entrant("frozen"), 5, folder / "runs" / "b", settings_from)
    for name in ("correct", "answers", "updates", "samples", "tokens", "proposed"):
        assert again[name] == whole[name]
    assert [one["by_rung"] for one in again["curve"]] == [one["by_rung"] for one in whole["curve"]]


def test_a_job_that_fails_is_written_down_and_the_others_are_played(track, folder):
    bad = folder / "bad.yaml"
    bad.write_text("conjecturer_reward: no_such_reward\n", encoding="utf-8")
    place, said = Place(folder / "fails"), []
    jobs = [Asked(str(folder / "mini.yaml"), word, 1) for word in (f"bad={bad}", "plain")]
    Schedule(place, jobs[:1], 2, say=said.append).play()
    schedule = Schedule(place, jobs, 2, say=said.append)
    assert [job.names[1] for job in schedule.open()] == ["plain"]
    done = place.file("mini", "plain", 1)
    done.write_text("{}", encoding="utf-8")  # a finished one is not played again
    found = json.loads(place.failed("mini", "bad", 1).read_text(encoding="utf-8"))
    assert found["exit_code"] == 2 and "no_such_reward" in found["said"]
    assert "failed" in said[-1] and schedule.open() == []  # not tried again unless it is asked for
    assert [job.names[1] for job in Schedule(place, jobs, 1, again=True).open()] == ["bad"]


def test_the_list_and_the_settings_of_a_contestant_are_printed_and_rates_follow_the_problems(capsys, tmp_path):
    assert main(["--list"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^critic .* no \(10\)", said, re.M) and re.search(r"^\(10\) it criticises", said, re.M)
    assert main(["--print", "trained"]) == 0
    assert "prover_objective: rloo" in capsys.readouterr().out
    # Two problems of 3 numbers with 1 and 2 right answers of 2, two of 4 numbers with none and 1:
    # pass@1 (1/2 + 1)/2 and (0 + 1/2)/2; pass@2 both, and one of two.
    found = SimpleNamespace(correct=[1, 2, 0, 1], n=2, rungs=None)
    assert job.by_rung(found, write_mini(tmp_path)) == {"3": [0.75, 1.0], "4": [0.25, 0.5]}


@pytest.mark.parametrize(("code", "failed"), [(-9, False), (130, False), (143, False), (1, True)])
def test_a_job_that_a_signal_ends_has_not_failed(tmp_path, monkeypatch, code, failed):
    real = subprocess.Popen

    def ends(command, **more):
        """A process that reads its stdin, which must be a pipe, and ends as a job would."""
        assert "--attached" in command and more["stdin"] == subprocess.PIPE
        own = "kill -9 $$" if code < 0 else f"exit {code}"
        return real(["sh", "-c", own], **more)

    monkeypatch.setattr(subprocess, "Popen", ends)
    place, said = Place(tmp_path), []
    Schedule(place, [Asked("ladder", "plain", 1)], 1, say=said.append).play()
    assert place.failed("ladder", "plain", 1).exists() is failed
    assert ("failed" if failed else "it goes on in the next call") in said[-1]


def test_a_job_ends_with_the_process_that_began_it():
    code = "from countdown_selfplay.lab.cli.arena import end_with_stdin; end_with_stdin()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert process.poll() is None
    process.stdin.close()  # as the system does when the other process ends, however it ends
    assert process.wait() == 143


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
    found = job.play(track, entrant("random"), 7, tmp_path / "run", settings_from, "leaderboard")
    assert [point["round"] for point in found["points"]] == [0, 1]  # of three rounds
    # One half is half of the way from 0 to 1, so half of the 16 answers.
    assert found["arrived"]["answers"] == 8 and found["arrived"]["round"] == 0.5
    assert found["measured_on"] == "withheld" and found["goal"] == goal
