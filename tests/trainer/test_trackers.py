# Tests: training/callbacks/guard.py
"""What reaches a tracker: the guard's actions as alerts of trackio, and what the roles wrote as its table."""

import json
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from countdown_selfplay.training.callbacks.guard import alert

PLAY = """
import sys
from countdown_selfplay.cli.main import main
sizes = ["--per_device_train_batch_size", "16", "--prover_micro_batches", "2", "--conjecturer_num_generations", "16"]
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
