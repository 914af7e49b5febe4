# Tests: training/store.py, data/anchors.py
"""Resumes in every epoch and at its edges equal the straight run bit for bit, with everything on that a run remembers:
kept samples, a novelty window, an adaptive bonus, dropout, evaluation and logs that do not fall on checkpoints."""

import json
from pathlib import Path

import pytest
from peft import LoraConfig

from .conftest import TIMES, equal, held, make_trainer, optimizer_state, ran, remembered, results_of, rounds, weights
from .test_round import problems

# A round draws 8 anchors: 2 x 16 answers / groups of 4. So 24 anchors are three rounds an epoch.
A_ROUND, ROUNDS = 8, 9
REMEMBERING = dict(
    max_steps=ROUNDS, save_strategy="steps", save_steps=1, logging_steps=2, guard=True, beta=0.05, novelty_window=6,
    prover_objective="expert_iteration", conjecturer_objective="rae", use_adaptive_entropy=True, entropy_target=0.6,
    entropy_coef=0.01, eval_strategy="steps", eval_steps=3, num_generations_eval=2,
)  # fmt: skip
LORA = LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
KINDS = ("full", "lora", "tied")
INSIDE = 4  # one round into the second epoch: README line 2 plays it
# `make test-matrices`: each step with full weights; with the other kinds, an edge and the inside of an epoch.
OTHERS = {"full": (1, 2, 3, 5, 6, 7, 8), "lora": (3, 4), "tied": (4, 6)}


def play(folder, kind, resume=None):
    extra = {"train_dataset": problems(3 * A_ROUND), "eval_dataset": problems(44).select(range(40, 44))}
    if kind == "lora":
        extra["peft_config"] = LORA
    trainer = make_trainer(folder, trainer=extra, policy_sharing=kind, seed=8, **REMEMBERING)
    trainer.anchors = {}
    results_of(trainer, lambda round, anchors: trainer.anchors.update({round.index: [p.key for p in anchors]}))
    return ran(trainer, resume)


def lines(trainer, name, after):
    """Of metrics.jsonl or samples.jsonl, without times and the summary of the call at its end."""
    text = (Path(trainer.args.output_dir) / f"{name}.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    found = [line for line in found if line["step"] > after and "train_loss" not in line]
    return [{k: v for k, v in line.items() if not any(t in k for t in TIMES)} for line in found]


def cells():
    """(kind, step): one for README line 2, OTHERS for the matrix, all that are left for the night."""
    for kind in KINDS:
        for step in range(1, ROUNDS):
            elsewhere = pytest.mark.matrix if step in OTHERS[kind] else pytest.mark.nightly
            yield pytest.param(kind, step, marks=() if (kind, step) == ("full", INSIDE) else elsewhere)


@pytest.fixture(scope="module")
def straight(request, tmp_path_factory):
    return request.param, play(tmp_path_factory.mktemp(request.param) / "straight", request.param)


@pytest.mark.parametrize(("straight", "step"), list(cells()), indirect=["straight"])
def test_a_resume_at_any_round_of_three_epochs_equals_the_straight_run(straight, step, tmp_path):
    kind, whole = straight
    resumed = play(tmp_path, kind, str(Path(whole.args.output_dir) / f"checkpoint-{step}"))
    assert resumed.anchors == {k: v for k, v in whole.anchors.items() if k >= step}
    assert equal(weights(whole), weights(resumed))
    assert equal(optimizer_state(whole), optimizer_state(resumed))
    assert held(whole) == held(resumed)
    for name in ("metrics", "samples"):
        assert lines(whole, name, step) == lines(resumed, name, step)


@pytest.mark.parametrize("straight", ["full"], indirect=True)
def test_epochs_have_orders_of_their_own_and_each_plays_every_anchor_once(straight):
    _, whole = straight
    epochs = [[key for r in range(3) for key in whole.anchors[3 * epoch + r]] for epoch in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert all(len(set(epoch)) == 3 * A_ROUND for epoch in epochs)
    assert set(epochs[0]) == set(epochs[1]) == set(epochs[2])
    assert held(whole)["replays"]["prover"] and whole.game.archive.last_played  # what the resumes have to bring back


# 3 rounds an epoch: ceil(1.5 x 3) = 5, 2 x 3 = 6
@pytest.mark.parametrize(("epochs", "end"), [(1.5, 5), pytest.param(2, 6, marks=pytest.mark.matrix)])
def test_a_finished_run_of_epochs_is_not_played_on_and_more_epochs_are(build, epochs, end):
    def run(count):
        settings = dict(max_steps=-1, num_train_epochs=count, save_strategy="steps", save_steps=end)
        return build("run", trainer={"train_dataset": problems(3 * A_ROUND + 1)}, **settings)

    whole = ran(run(epochs))
    again = run(epochs)
    assert again.train(resume_from_checkpoint=True).global_step == end == whole.state.max_steps
    assert equal(weights(whole), weights(again)) and remembered(whole) == remembered(again)
    longer = run(epochs + 1)
    assert longer.train(resume_from_checkpoint=True).global_step == end + 3 == longer.counts.rounds


def test_the_first_log_after_a_resume_covers_the_rounds_that_it_covers_in_the_straight_run(build):
    """Logs at 3 and 6, checkpoint at 2: the log at 3 is of rounds 1 to 3, its loss (summed by the Trainer) too."""
    settings = dict(max_steps=6, save_strategy="steps", save_steps=2, logging_steps=3, beta=0.05)
    whole = ran(build("straight", **settings))
    resumed = build("resumed", **settings)
    folder = Path(whole.args.output_dir) / "checkpoint-2"
    losses = json.loads((folder / "selfplay_state.json").read_text())["loop"]["losses"]
    assert len(losses) == 1 and losses[0] != 0  # one process; there is something to bring back
    summary = resumed.train(resume_from_checkpoint=str(folder))
    expected, found = rounds(whole.args.output_dir), rounds(resumed.args.output_dir)
    assert found == expected and [line["step"] for line in found] == [3, 6]
    # train_loss is of the 4 rounds of this call alone: 3 x both logged means, less the 2 rounds before
    total = 3 * (found[0]["loss"] + found[1]["loss"]) - losses[0]
    assert summary.training_loss == pytest.approx(total / 4, rel=1e-5)


@pytest.mark.parametrize(("strategy", "logged"), [("steps", [3, 5]), ("no", [])])
def test_the_last_rounds_are_logged_even_where_no_log_falls_on_the_end(build, strategy, logged):
    trainer = ran(build(max_steps=5, logging_steps=3, logging_strategy=strategy))
    found = rounds(trainer.args.output_dir)
    assert [line["step"] for line in found] == logged
    if logged:  # 16 proposals and 32 answers a round
        assert found[-1]["round/generations"] == 48 * (4 + 5) / 2  # the mean over rounds 4 and 5
