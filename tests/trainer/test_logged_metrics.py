# Tests: contract/trainer_metrics.py, games/metrics.py, training/metrics_buffer.py, training/callbacks/round_end.py
"""What a round logs of its texts and times, counted another way; and what its command line shows."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from datasets import Dataset
from transformers import EarlyStoppingCallback

from countdown_selfplay.cli.main import main
from countdown_selfplay.config.script import callbacks_of, reward_funcs_of
from countdown_selfplay.contract.metric import Metric, declaration_of, for_players
from countdown_selfplay.contract.trainer_metrics import LOG_METRICS, TRAINER_METRICS
from countdown_selfplay.domains import held_out_of
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.rewards import make_conjecturer_reward
from countdown_selfplay.statistics.pass_at_k import pass_at_k
from countdown_selfplay.training.callbacks.progress import RoundProgress, alert
from countdown_selfplay.training.callbacks.run_folder import ReportEvery

from ..installed import MISSING
from .conftest import equal, on_sample, ran, rounds, weights

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


ROW = Dataset.from_list([{"numbers": [3, 5, 7], "target": 22}])
OWN = """
from transformers import TrainerCallback

def short(completions, **columns):
    return [-0.01 * len(text) for text in completions]

def middle(solve_rate_P, ctx, peak=0.5):
    return 1 - abs(solve_rate_P - peak)

class Noted(TrainerCallback):
    seen = 0
    def on_step_end(self, args, state, control, **kwargs):
        Noted.seen += 1

class Needy(TrainerCallback):
    def __init__(self, folder):
        self.folder = folder
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of a user's own in the current folder."""
    name = f"own_parts_{abs(hash(tmp_path)) % 10**8}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_without_a_bar_each_round_is_one_short_line_with_the_values_of_the_log(build, capsys):
    trainer = build(max_steps=2)
    trainer.train()
    out = [line for line in capsys.readouterr().out.splitlines() if line.startswith("round ")]
    assert len(out) == 2 and max(map(len, out)) < 100
    for number, (line, logged) in enumerate(zip(out, rounds(trainer.args.output_dir), strict=True), start=1):
        assert line.startswith(f"round {number}/2: solved {logged['prover/correct_rate']:.2f}, ")
        assert f"solvable {logged['conjecturer/solvable_rate']:.2f}, played" in line
        assert re.search(r" s/round(, ETA \d+ (s|min))?$", line)
    assert "ETA" in out[0] and "ETA" not in out[1]  # nothing is left


@pytest.mark.skipif("lab" in MISSING, reason="the page of a run is written by lab")
def test_a_report_every_round_changes_nothing_of_the_run_and_shows_the_rounds_so_far(build):
    plain, watched = build("plain", max_steps=3), build("watched", max_steps=3)
    with pytest.raises(DataError, match=r"is not a run folder: it has no run\.json|There is no run folder"):
        watched.report()
    seen = []
    callback = ReportEvery(2)
    page = Path(watched.args.output_dir) / "report.html"
    on_log = callback.on_log

    def noted(*args, **kwargs):
        on_log(*args, **kwargs)
        seen.append("2 logged rounds" in page.read_text() if page.exists() else None)

    callback.on_log = noted
    watched.add_callback(callback)
    plain.train(), watched.train()
    assert seen[:3] == [None, True, True]  # written after round 2 alone, and not again after round 3
    assert rounds(plain.args.output_dir) == rounds(watched.args.output_dir)
    assert equal(weights(plain), weights(watched))
    assert watched.report() == page and "3 logged rounds" in page.read_text()


def test_evaluate_without_a_data_set_takes_the_problems_of_the_command_line(build):
    trainer = build(num_generations_eval=2, max_steps=1, per_device_eval_batch_size=256)
    assert trainer.evaluator.held_out_side() == held_out_of(trainer.domain, 512)
    keys = {trainer.domain.key(problem) for problem in trainer.evaluator.held_out_side()}
    trained = [trainer.domain.problem(row, i) for i, row in enumerate(trainer.train_dataset)]
    assert len(keys) == 512 and not keys & {trainer.domain.key(problem) for problem in trained}
    found = trainer.evaluate()
    assert found["eval_problems"] == 512 and found["eval_pass@1"] <= found["eval_pass@2"]


def test_the_best_checkpoints_weights_are_taken_at_the_end(build):
    """The scores are made up: round 2 of 3 is the best, and its weights are in its checkpoint."""
    best = dict(eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1, num_generations_eval=1)
    best |= dict(load_best_model_at_end=True, metric_for_best_model="eval_pass@1", max_steps=3)
    trainer = build(trainer={"eval_dataset": ROW}, **best)
    kept, evaluate = {}, trainer.evaluate

    def scores(*args, **kwargs):
        step = trainer.state.global_step
        kept[step] = weights(trainer)
        return evaluate(*args, **kwargs) | {"eval_pass@1": {1: 0.1, 2: 0.9, 3: 0.3}[step]}

    trainer.evaluate = scores
    trainer.train()
    assert trainer.state.best_model_checkpoint.endswith("checkpoint-2")
    assert equal(weights(trainer), kept[2]) and not equal(kept[2], kept[3])


def test_parts_of_a_users_own_are_named_by_where_they_are(own):
    verifier = len  # any callable
    with pytest.raises(ConfigError, match=r"`reward_funcs` \(.*:Noted\) must name a function"):
        reward_funcs_of([f"{own}:Noted"], print)
    short = reward_funcs_of(["verifier", f"{own}:short"], verifier)
    assert short[0] is verifier and short[1](completions=["abc"]) == [-0.03]
    assert reward_funcs_of(None, verifier) is None
    noted, stop = callbacks_of([f"{own}:Noted"], 3)
    assert type(noted).__name__ == "Noted" and isinstance(stop, EarlyStoppingCallback)
    assert stop.early_stopping_patience == 3 and callbacks_of(None, None) == []
    with pytest.raises(ConfigError, match=r"`callbacks` \(.*:Needy\) cannot be built without arguments"):
        callbacks_of([f"{own}:Needy"], None)
    reward = make_conjecturer_reward(f"{own}:middle", {"peak": 0.25})
    assert reward(0.75, None) == 0.5  # 1 - |.75 - .25|
    with pytest.raises(ConfigError, match="does not take width"):
        make_conjecturer_reward(f"{own}:middle", {"width": 1})


def test_a_run_with_parts_of_a_users_own_and_its_control_on_as_many_samples(own, tmp_path, capsys):
    """The difference of the two is recomputed from the counts of right answers per problem."""
    parts = ["--reward_funcs", "verifier", f"{own}:short", "--callbacks", f"{own}:Noted"]
    parts += ["--conjecturer_reward", f"{own}:middle", "--conjecturer_reward_kwargs", '{"peak": 0.3}']
    sizes = "--per_device_train_batch_size 16 --problems_per_round 4 --proposals_per_round 16 --num_generations 8"
    sizes += " --conjecturer_num_generations 16 --prover_num_generations 8 --max_steps 2 --eval_problems 16"
    sizes += " --eval_proposals 16 --num_generations_eval 4 --disable_tqdm true"
    assert main(["joint", "--output_dir", "run", "--control", "true", *sizes.split(), *parts]) == 0
    out = capsys.readouterr().out
    assert "What the conjecturer was worth" in out
    run, control = rounds("run"), rounds("run/control")
    assert all("prover/rewards/short" in line and "prover/rewards/verifier_reward" in line for line in run)
    samples = [[line["prover/trained_samples"] for line in lines] for lines in (run, control)]
    assert samples[0] == samples[1] == [32, 32]  # two micro-batches of 16
    assert not any("conjecturer/loss" in line for line in control) and "conjecturer/loss" in run[0]
    found = json.loads(Path("run/control.json").read_text())
    rates = [[pass_at_k(4, c, 4) for c in found[side]["prover"]["correct"]] for side in ("control", "run")]
    assert found["difference"]["pass@4"][0] == pytest.approx((sum(rates[1]) - sum(rates[0])) / 16)
    after = json.loads(Path("run/evaluation.json").read_text())["after"]
    assert found["run"]["prover"]["correct"] == after["prover"]["correct"]
    if "lab" not in MISSING:
        assert "With and without the conjecturer" in Path("run/report.html").read_text()


def test_a_run_ends_early_when_it_does_not_improve(build):
    often = dict(eval_strategy="steps", eval_steps=1, num_generations_eval=1, metric_for_best_model="eval_pass@1")
    trainer = build(max_steps=9, trainer={"eval_dataset": ROW, "callbacks": callbacks_of(None, 2)}, **often)
    evaluate = trainer.evaluate
    trainer.evaluate = lambda *args, **kwargs: evaluate(*args, **kwargs) | {"eval_pass@1": 0.5}
    trainer.train()
    assert trainer.state.global_step == 3  # the first is the best, and two more are not better
