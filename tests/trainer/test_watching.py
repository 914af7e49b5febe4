# Tests: training/callbacks/round_end.py, training/evaluation.py, training/callbacks/run_folder.py
"""What a user sees of a run while it trains, what it can be told to end with, and parts named as module:function."""

import json
import re
from pathlib import Path

import pytest
from datasets import Dataset
from transformers import EarlyStoppingCallback

from countdown_selfplay.cli.main import main
from countdown_selfplay.config.script import callbacks_of, reward_funcs_of
from countdown_selfplay.domains import held_out_of
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.rewards import make_conjecturer_reward
from countdown_selfplay.statistics.pass_at_k import pass_at_k
from countdown_selfplay.training.callbacks.run_folder import ReportEvery

from ..installed import MISSING
from .conftest import equal, rounds, weights

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
    with pytest.raises(ConfigError, match="must name a class of TrainerCallback"):
        callbacks_of([f"{own}:short"], None)
    with pytest.raises(ConfigError, match="cannot be imported"):
        callbacks_of(["no_such_module:Callback"], None)
    reward = make_conjecturer_reward(f"{own}:middle", {"peak": 0.25})
    assert reward(0.75, None) == 0.5  # 1 - |.75 - .25|
    with pytest.raises(ConfigError, match="does not take width"):
        make_conjecturer_reward(f"{own}:middle", {"width": 1})


def test_a_run_with_parts_of_a_users_own_and_its_control_on_as_many_samples(own, tmp_path, capsys):
    """The difference of the two is recomputed from the counts of right answers per problem."""
    parts = ["--reward_funcs", "verifier", f"{own}:short", "--callbacks", f"{own}:Noted"]
    parts += ["--conjecturer_reward", f"{own}:middle", "--conjecturer_reward_kwargs", '{"peak": 0.3}']
    sizes = [
        "--per_device_train_batch_size",
        "16",
        "--problems_per_round",
        "4",
        "--proposals_per_round",
        "16",
        "--num_generations",
        "8",
    ]
    sizes += ["--conjecturer_num_generations", "16", "--prover_num_generations", "8", "--max_steps", "2"]
    sizes += [
        "--eval_problems",
        "16",
        "--eval_proposals",
        "16",
        "--num_generations_eval",
        "4",
        "--disable_tqdm",
        "true",
    ]
    assert main(["joint", "--output_dir", "run", "--control", "true", *sizes, *parts]) == 0
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
