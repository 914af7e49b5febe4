# Tests: lab/report/charts.py, evaluation/findings.py, evaluation/load.py
"""The charts of a game whose roles and metrics the library does not know (report/charts.py, contract/metric.py)."""

import json

import pytest

from countdown_selfplay.contract.metric import SHARE, Metric, Panel, as_json, for_players, from_json
from countdown_selfplay.contract.trainer_metrics import TRAINER_METRICS
from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation.findings import findings
from countdown_selfplay.lab.report import load_run, write_report
from countdown_selfplay.lab.report.charts import charts_of
from countdown_selfplay.lab.report.panels import drawn
from countdown_selfplay.lab.report.tables import health

ROLES = ("answerer", "judge", "mender")
GAME = (
    Metric("relay/repaired_share", "Share of the doubted answers that were repaired.", panel=Panel("Repairs", SHARE)),
    Metric("{judge}/trust", "Mean of the bets.", healthy=(0.2, 0.9), cure="Pay for doubts.", subject="mean bet"),
    Metric("{mender}/trust", "Mean of the bets of others."),
    Metric("relay/answers_of_<k>_numbers", "Answers to problems of k numbers."),
)
STANDARD = {
    "Entropy (nats per token)": "{}/entropy", "KL to the start (nats per token)": "{}/kl", "Loss": "{}/loss",
    "Gradient norm before the clip": "grad_norm/{}", "Learning rate": "lr/{}",
    "Tokens per text": "{}/completion_length", "Texts cut at the token limit": "{}/truncated_rate",
    "Seconds per round": "time/rollout_{}", "Reward": "{}/reward",
}  # fmt: skip
"""Title -> metric of each role, which the frame logs or any game may log."""
DECLARED = for_players((*TRAINER_METRICS, *GAME), {role: [role] for role in ROLES})


@pytest.fixture
def relay(tmp_path):
    """A run of three rounds; judge/trust is 0.1 and below its range."""
    row = {name.format(role): 0.5 for name in STANDARD.values() for role in ROLES}
    row |= {"relay/repaired_share": 0.25, "judge/trust": 0.1, "mender/trust": 0.3, "round/generations": 64}
    row |= {f"relay/answers_of_{k}_numbers": float(k) for k in (3, 10)}
    described = {"name": "relay", "config": {}, "metrics": {one.name: as_json(one) for one in DECLARED}}
    (tmp_path / "run.json").write_text(json.dumps(described))
    lines = [json.dumps({"step": step, **row}) for step in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    return tmp_path


def curves(run):
    """Title -> (metric, label) of the curves."""
    return {chart.title: chart.metrics for chart in charts_of([run])}


def test_every_role_has_the_standard_curves_and_every_declared_metric_is_drawn(relay):
    found = curves(load_run(relay))
    for title, metric in STANDARD.items():
        wanted = {metric.format(role): role for role in ROLES}
        assert [name for name, _ in found[title]] == list(wanted), title
        assert all(role in label for (_, label), role in zip(found[title], ROLES, strict=True)), title
    assert found["Repairs"] == (("relay/repaired_share", "relay/repaired_share"),)
    assert found["Trust"] == (("judge/trust", "judge"), ("mender/trust", "mender"))  # no panel: named after the metric
    numbers = [name for title in found if title.startswith("Relay answers of") for name, _ in found[title]]
    assert numbers == ["relay/answers_of_3_numbers", "relay/answers_of_10_numbers"]
    page = write_report([relay], relay / "report.html").read_text()
    assert all(f'aria-label="{title}"' in page for title in (*STANDARD, "Repairs", "Trust"))
    assert {"mender/trust", "lr/mender"} <= {name for chart in found.values() for name, _ in chart}


def test_a_role_of_the_game_is_judged_by_its_range_and_players_are_named_in_their_curves(relay):
    run = load_run(relay)
    assert findings(run)[-1] == "The mean bet was 0.1 over the run (healthy: 0.2 to 0.9). Pay for doubts."
    assert "mean bet" in [row[0]["text"] for row in health([run]).rows]
    rows = [{"step": 1, **{f"judge/{i}/entropy": 0.4 for i in (0, 1, 10)}, "mender/entropy": 0.3}]
    (relay / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    players = {"judge": [f"judge/{i}" for i in (0, 1, 10)], "mender": ["mender"]}
    described = {one.name: as_json(one) for one in for_players(TRAINER_METRICS, players)}
    (relay / "run.json").write_text(json.dumps({"config": {}, "metrics": described}))
    run = load_run(relay)
    labels = [label for _, label in curves(run)["Entropy (nats per token)"]]
    assert labels == ["judge/0", "judge/1", "judge/10", "mender"]
    assert list(drawn([run])["Optimisation"]) == ["Entropy (nats per token)"]


def test_a_panel_is_written_and_read_and_a_damaged_one_is_named(relay):
    metric = Metric("a", "b", panel=Panel("T", (0.0, 1.0), "S", "l"), subject="c")
    assert from_json("a", json.loads(json.dumps(as_json(metric)))) == metric
    described = json.loads((relay / "run.json").read_text())
    for damaged in ({"title": 1}, {"name": "x"}, "x", {"title": "T", "view": [None]}):
        described["metrics"]["judge/trust"]["panel"] = damaged
        (relay / "run.json").write_text(json.dumps(described))
        with pytest.raises(DataError, match=r"'metrics' must hold the declaration of each metric"):
            load_run(relay)


def test_a_run_without_declarations_gets_the_panels_of_the_library(relay):
    whole = curves(load_run(relay))
    (relay / "run.json").write_text(json.dumps({"name": "relay", "config": {}}))
    found = curves(load_run(relay))
    assert found["Loss"] == whole["Loss"] and "Trust" not in found
