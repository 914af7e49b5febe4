# Tests: contract/trainer_metrics.py, games/metrics.py, training/metrics_buffer.py, training/callbacks/round_end.py
"""What a round logs about its texts and its times, checked against numbers counted another way."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from datasets import Dataset

from countdown_selfplay.contract.metric import Metric, declaration_of, for_players
from countdown_selfplay.contract.trainer_metrics import LOG_METRICS, TRAINER_METRICS
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.training.callbacks.progress import RoundProgress, alert

from .conftest import on_sample, ran, rounds

EVAL = [{"numbers": [3, 5, 7], "target": 22}, {"numbers": [2, 4, 6], "target": 20}]


def test_lengths_and_cut_texts_are_counted_from_the_round_itself(build):
    """Counted again from what the rollouts return: each text's own tokens without padding, the end token included."""
    trainer = build(max_steps=2, max_completion_length=6, logging_steps=1)
    seen = {"prover": [], "conjecturer": []}

    def watch(role, found):
        seen[role].append((found.tensors["completion_ids"].tolist(), found.tensors["completion_mask"].tolist()))

    on_sample(trainer, watch)
    trainer.train()
    for number, line in enumerate(rounds(trainer.args.output_dir)):
        for role, rollouts in seen.items():
            ids, masks = rollouts[number]
            texts = [[i for i, kept in zip(*row, strict=True) if kept] for row in zip(ids, masks, strict=True)]
            lengths = [len(text) for text in texts]
            cut = [len(text) == 6 and text[-1] not in trainer.eos_token_ids for text in texts]
            assert line[f"{role}/completion_length"] == pytest.approx(sum(lengths) / len(lengths))
            assert line[f"{role}/completion_length_max"] == max(lengths)
            assert line[f"{role}/truncated_rate"] == pytest.approx(sum(cut) / len(cut))
            assert not any(name.startswith("completions/") for name in line)
    assert 0 < rounds(trainer.args.output_dir)[0]["prover/truncated_rate"] < 1  # six tokens cut some answers, not all


def test_an_evaluation_between_two_logs_leaves_the_times_of_the_rounds_alone(build):
    trainer = ran(build(trainer={"eval_dataset": Dataset.from_list(EVAL)}, num_generations_eval=2, max_steps=1))
    trainer.model.train()
    trainer._metrics["train"]["time/round"] += [1.0, 3.0]
    trainer.evaluate()
    assert trainer.model.training
    trainer.log({"loss": 0.0})
    lines = [json.loads(x) for x in (Path(trainer.args.output_dir) / "metrics.jsonl").read_text().splitlines()]
    evaluation, last = lines[-2:]
    assert "eval_pass@1" in evaluation and not any("time/" in name for name in evaluation)
    assert last["time/round"] == 2.0  # the mean of 1 and 3 seconds


STOCK = ("loss", "grad_norm", "learning_rate", "epoch", "step", "num_tokens", "train_", "total_flos", "eval_runtime")
"""What TRL and Transformers log by themselves."""


def undeclared(trainer, declared):
    names = {name for entry in trainer.state.log_history for name in entry}
    names |= {name for entry in rounds(trainer.args.output_dir) for name in entry}
    return sorted(
        n for n in names if n not in STOCK and not n.startswith(STOCK[-3:]) and not declaration_of(n, declared)
    )


@pytest.mark.parametrize(
    "settings",
    [
        dict(beta=0.01, operands=[2, 3], eval_strategy="steps", eval_steps=2, trainer={"eval_dataset": EVAL}),
        dict(prover_objective="expert_iteration", use_adaptive_entropy=True, entropy_target=0.2),
    ],
    ids=["evaluated", "other objectives"],
)  # fmt: skip
def test_every_logged_metric_is_declared(build, settings):
    data = {name: Dataset.from_list(rows) for name, rows in settings.get("trainer", {}).items()}
    trainer = ran(build(**{"max_steps": 2, **settings, "trainer": data}))
    players = {"prover": ["prover"], "conjecturer": ["conjecturer"]}
    assert undeclared(trainer, for_players((*TRAINER_METRICS, *LOG_METRICS, *ProposeAndSolve.metrics), players)) == []


def test_a_metric_that_a_game_declares_reaches_bar_guard_and_run_folder(build, monkeypatch):
    class Surprising(ProposeAndSolve):
        own = Metric("round/surprise", "How far off it was.", (0.2, 1), trip=(0.1, 0.9), word="surprise")
        metrics = (*ProposeAndSolve.metrics, own)

        def play(self, ctx, anchors):
            result = super().play(ctx, anchors)
            result.metrics["round/surprise"] = 0.95
            return result

    seen = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    trainer = build(max_steps=1, disable_tqdm=False, guard_window=5, trainer={"game": Surprising()})
    (bar,) = [c for c in trainer.callback_handler.callbacks if isinstance(c, RoundProgress)]
    begin = bar.on_train_begin

    def begun(*args, **kwargs):
        begin(*args, **kwargs)
        bar.training_bar.set_postfix_str = seen.append

    bar.on_train_begin = begun
    trainer.train()
    (shown,) = seen
    words = [part.rpartition(" ")[0] for part in shown.split(", ")]
    assert words == [w for w in ("solved", "solve rate", "solvable", "played", "surprise") if w in words]
    assert {"solved", "solvable", "played"} < set(words) and shown.endswith("surprise 0.95")
    assert trainer.guard.observe({"round/surprise": 0.95}) is None and not trainer.guard.healthy
    written = json.loads(Path(trainer.args.output_dir, "run.json").read_text())["metrics"]
    assert all(one.pop("help") for one in written.values())  # what a report explains it with
    assert all(
        one.pop("cure") for one in written.values() if "healthy" in one and one is not written["round/surprise"]
    )
    assert written["round/surprise"] == {"healthy": [0.2, 1], "trip": [0.1, 0.9], "word": "surprise"}
    panel = {"title": "The conjecturer's proposals", "view": [0, 1], "section": "Curriculum", "label": "parseable"}
    ranges = {"healthy": [0.7, None], "trip": [0.5, 1], "legible": True}
    words = {"subject": "share of readable proposals"}
    assert written["conjecturer/parseable_rate"] == {**ranges, **words, "panel": panel}
    starved = written["round/starved"]
    assert (starved["in_a_row"], starved["healthy"], starved["panel"]["title"]) == (20, [0, 0], "Starved rounds")
    assert written["prover/loss"] == {"panel": {"title": "Loss", "section": "Optimisation", "label": "prover"}}


PLAY = """
import sys
from countdown_selfplay.cli.main import main
sizes = ["--problems_per_round", "4", "--proposals_per_round", "16", "--conjecturer_num_generations", "16"]
sizes += ["--prover_num_generations", "8", "--max_steps", "4", "--save_steps", "1", "--eval_problems", "0"]
guard = ["--guard_window", "2", "--guard_max_rollbacks", "1", "--guard_trips", '{"prover/reward_std": [9, 10]}']
guard += ["--logging_steps", "1"]
tracked = ["--report_to", "trackio", "--project", "alerts", "--run_name", "r", "--log_completions", "true"]
code = main(["joint", "--output_dir", "run", *sizes, *guard, *tracked])
from trackio.sqlite_storage import SQLiteStorage
import trackio, json
trackio.finish()
found = {"code": code, "alerts": SQLiteStorage.get_alerts("alerts"), "logs": SQLiteStorage.get_logs("alerts", "r")}
print("FOUND" + json.dumps(found, default=str))
"""


def test_an_alert_goes_to_trackio_of_the_main_process_alone_and_only_where_its_run_has_begun(monkeypatch, caplog):
    said, current = [], SimpleNamespace(get=lambda: "a run")
    trackio = ModuleType("trackio")
    trackio.alert, trackio.AlertLevel = lambda **words: said.append(words), lambda level: f"level {level}"
    trackio.context_vars = SimpleNamespace(current_run=current)
    monkeypatch.setitem(sys.modules, "trackio", trackio)

    def to(*report_to):
        return SimpleNamespace(report_to=list(report_to))

    alert(to("wandb"), True, "no", "tracker")
    alert(to("trackio"), False, "no", "main process")
    alert(to("wandb", "trackio"), True, "Rolled back", "why", "error")
    current.get = lambda: None
    alert(to("trackio"), True, "no", "run")
    assert said == [{"title": "Rolled back", "text": "why", "level": "level error"}]
    del trackio.context_vars  # as of another version: a rollback goes on
    alert(to("trackio"), True, "no", "alerts")
    assert "trackio took no alert (AttributeError" in caplog.text


@pytest.mark.slow
def test_a_rollback_and_the_texts_of_a_run_are_in_trackios_own_database(tmp_path):
    """A range that no two rounds meet: after round 2 the run goes back, and the second time it ends. Round 1 is logged
    each time."""
    pytest.importorskip("trackio", reason="trackio is not installed; `pip install trackio`")
    env = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", PLAY], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert "FOUND" in done.stdout, done.stderr[-2000:]
    found = json.loads(done.stdout.partition("FOUND")[2])
    assert found["code"] == 2
    titles = {one["level"]: one["title"].rpartition("-")[0] or one["title"] for one in found["alerts"]}
    assert titles == {"error": "The run has collapsed", "warn": "Rolled back to checkpoint"}
    assert len(found["alerts"]) == 2
    assert any("prover/reward_std" in one["text"] for one in found["alerts"])
    assert any(name.endswith("prover/reward") for row in found["logs"] for name in row)
    tables = [value for row in found["logs"] for value in row.values() if isinstance(value, dict)]
    assert any(table.get("_type") == "trackio.table" for table in tables)
