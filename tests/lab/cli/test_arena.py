# Tests: lab/cli/arena.py, lab/arena/job.py, lab/arena/schedule.py
"""`countdown-selfplay arena`: real jobs on a track of two rounds, jobs that fail, and what is refused."""

import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tests.lab.arena.mini import write_mini

from countdown_selfplay.lab.arena.contestants import entrant
from countdown_selfplay.lab.arena.job import Job, by_rung
from countdown_selfplay.lab.arena.schedule import Asked, Place, Schedule
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

    whole = Job(track, entrant("frozen"), 5, folder / "runs" / "a", settings_from).play()
    from countdown_selfplay.lab.arena import job

    def killed(self, args, state, control, **more):
        if state.global_step == 2:  # the first round's checkpoint is there
            raise Killed

    monkeypatch.setattr(job.Watch, "on_step_end", killed)
    with pytest.raises(Killed):
        Job(track, entrant("frozen"), 5, folder / "runs" / "b", settings_from).play()
    assert [path.name for path in (folder / "runs" / "b").glob("checkpoint-*")] == ["checkpoint-1"]
    monkeypatch.undo()
    again = Job(track, entrant("frozen"), 5, folder / "runs" / "b", settings_from).play()
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
    assert by_rung(found, write_mini(tmp_path)) == {"3": [0.75, 1.0], "4": [0.25, 0.5]}


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
