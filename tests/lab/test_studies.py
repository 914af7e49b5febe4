# Tests: studies/many_runs.py, studies/pretrained.py, lab/report/panels.py
"""What studies share; and the stages and arms of the study of a pretrained model."""

import json
import os

import four_runs_curve
import pretrained
import pytest
from many_runs import FINISHED, compared, finish, play_all, run_folder
from tests.made_up_answers import counted
from tests.made_up_runs import edited, write_run

from countdown_selfplay.errors import DataError
from countdown_selfplay.lab.report import load_run, write_report
from countdown_selfplay.lab.report.panels import drawn, reliability
from countdown_selfplay.lab.report.tables import filtering

RIGHT = {"pool": [4, 2, 0, 2], "single": [2, 2, 0, 0]}  # of 4 answers to each of four problems


def run(task):
    """Leave a result, and how the process stands."""
    import torch

    arm, seed, root = task
    folder = run_folder(root, arm, seed)
    if (folder / FINISHED).exists():
        return
    about = {"threads": torch.get_num_threads(), "hub": os.environ.get("HF_HUB_OFFLINE"), "pid": os.getpid()}
    finish(folder, about, "about.json")
    finish(folder, {"after": {"prover": counted(RIGHT[arm])}, "settings": {"rounds": 4}})


def test_runs_are_played_in_processes_of_their_own_once_and_their_arms_compared(tmp_path):
    tasks = [(arm, 1, str(tmp_path)) for arm in RIGHT]
    play_all(run, tasks, workers=1)
    files = [run_folder(tmp_path, arm, 1) / "about.json" for arm in RIGHT]
    abouts = [json.loads(path.read_text()) for path in files]
    assert all(about["threads"] == 1 and about["hub"] == "1" and about["pid"] != os.getpid() for about in abouts)
    for task in tasks:
        run(task)  # finished: nothing is written again
    assert abouts == [json.loads(path.read_text()) for path in files]
    found = compared({arm: [run_folder(tmp_path, arm, 1) / FINISHED] for arm in RIGHT}, (1, 4), "single")
    # pass@1: 8 of 16 against 4 of 16; pass@4: three of four problems solved at all against two
    assert found.arms == ["single", "pool"]
    assert [(d.arm, d.k, d.percentile.difference) for d in found.differences] == [("pool", 1, 0.25), ("pool", 4, 0.25)]
    with pytest.raises(DataError, match="There is no file or run folder"):
        compared({arm: [run_folder(tmp_path, arm, 2) / FINISHED] for arm in RIGHT}, (1,), "single")


def test_a_level_is_reached_between_two_checkpoints_and_ratios_have_an_interval_of_their_logarithms():
    curve = [(0, 0.2), (100, 0.4), (200, 0.3), (300, 0.5)]  # half of the first stretch, three quarters of the last
    found = [four_runs_curve.answers_to(curve, level) for level in (0.3, 0.45, 0.1, 0.51)]
    assert found == [pytest.approx(50), pytest.approx(275), 0, None]
    # 2, 4 and 8 times fewer: the logarithms to base 2 have mean 2, deviation 1; t(.975, 2) / sqrt(3) = 2.4841
    assert four_runs_curve.ratio([10] * 3, [20, 40, 80]) == f"4.00 [{4 / 2**2.4841:.2f}, {4 * 2**2.4841:.2f}]"


def symbolic_run(folder):
    """A made-up run whose rounds 0 and 10 are refreshes."""
    run = write_run(folder, rounds=12)
    refreshes = {
        0: dict(valid_rate=0.6, rejected_trivial=0.4, eligible_rate=0.5, refused_too_hard=0.5, rate_at_1=0.2),
        10: dict(valid_rate=0.8, rejected_trivial=0.2, eligible_rate=1.0, rate_at_1=0.1, rate_at_7=0.8),
    }
    with edited(run / "metrics.jsonl") as rounds:
        for at, own in refreshes.items():
            own |= {"raw": 100, "selected": 10, "diversity": 0.1}
            rounds[at] |= {f"proposer/{name}": value for name, value in own.items()}
    return run


def test_the_report_shows_the_filter_cascade_and_the_last_reliability(tmp_path):
    run = load_run(symbolic_run(tmp_path / "one"))
    shown = {row[0]["hint"].partition(":")[0]: row[1] for row in filtering([run]).rows}
    # means over the two refreshes; what a refresh did not log, nobody was refused for
    assert shown == {
        "proposer/raw": "100", "proposer/valid_rate": "70.0%", "proposer/rejected_trivial": "30.0%",
        "proposer/eligible_rate": "75.0%", "proposer/refused_too_hard": "25.0%", "proposer/selected": "10",
    }  # fmt: skip
    figure = reliability([run])["Reliability of the predictor"]
    line = next(line for line in figure.axes[0].lines if len(line.get_xdata()) == 10)
    assert line.get_ydata()[1] == 0.1 and line.get_ydata()[7] == 0.8 and line.get_xdata()[7] == pytest.approx(0.75)
    charts = drawn([run])["Symbolic proposer"]
    assert {"Diversity of the selected", "Candidates: valid, and eligible of these"} <= set(charts)
    page = write_report([run.path], tmp_path / "report.html").read_text()
    assert "Filters of the symbolic proposer" in page and "proposer refused too hard" in page


def words_of(tmp_path, monkeypatch, *flags):
    played = []
    monkeypatch.setattr(pretrained, "command", lambda words: played.append(words) or 0)
    monkeypatch.setattr(pretrained, "MODEL", tmp_path / "model")
    assert pretrained.main(["--folder", str(tmp_path), "--arms", "trained", "plain", "--seeds", "1", *flags]) == 0
    return played


def test_a_stage_that_left_its_file_is_skipped_and_a_run_with_a_checkpoint_resumes(tmp_path, monkeypatch, capsys):
    names = ["models", "sft", "sft", "eval", "eval", *["joint", "eval"] * 2, "compare", "compare"]
    assert [words[0] for words in words_of(tmp_path, monkeypatch)] == names
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    (tmp_path / "start.json").touch()
    (tmp_path / "prover" / "checkpoint-20").mkdir(parents=True)
    played = words_of(tmp_path, monkeypatch)
    assert [words[0] for words in played] == ["sft", "sft", "eval", *names[5:]]
    assert [words[-2:] == ["--resume_from_checkpoint", "true"] for words in played[:2]] == [True, False]
    assert played[-2][:2] == ["compare", f"start={tmp_path}/start.jsonl"]
    assert played[-1][1:3] == [f"trained={tmp_path}/trained-1.jsonl", f"plain={tmp_path}/plain-1.jsonl"]
    capsys.readouterr()
    assert words_of(tmp_path, monkeypatch, "--dry_run") == [] and capsys.readouterr().out.startswith("done  models")
