# Tests: training/store.py, training/exports.py, training/checkpoints.py, data/anchors.py
"""Stop at a round and resume = straight run, bit for bit; what only looks changes nothing."""

import functools
import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay.data.anchors import problem_keys
from countdown_selfplay.errors import CheckpointError
from countdown_selfplay.training.checkpoints import defect
from countdown_selfplay.training.store import Store

from .conftest import (
    TIMES,
    Power,
    at_round,
    die,
    equal,
    goes_on,
    held,
    make_trainer,
    optimizer_state,
    ran,
    remembered,
    results_of,
    rounds,
    weights,
)
from .test_round import LORA, problems

SAVING = dict(save_strategy="steps", save_steps=2, beta=0.05, novelty_window=3, guard=True)
TOKEN = "hf_" + "s3cr3t" * 5


def settings(sharing="full", **changes):
    lora = {"peft_config": LORA} if sharing == "lora" else {}
    extra = {"eval_dataset": problems(8), **lora}  # of held-out problems alone: also a filter on proposals
    return {"max_steps": 4, **SAVING, "policy_sharing": sharing, "trainer": extra, **changes}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The run of four rounds with a way of sharing weights, once, and the `results` of its game."""

    @functools.cache
    def of(sharing="full"):
        trainer = make_trainer(tmp_path_factory.mktemp(sharing) / "run", hub_token=TOKEN, **settings(sharing))
        trainer.results = results_of(trainer)
        return ran(trainer)

    return of


@pytest.fixture
def copied(straight, tmp_path):
    """A copy of the folder of the run with full weights, to do something to: where `build` puts the run "run"."""
    return Path(shutil.copytree(straight().args.output_dir, tmp_path / "run"))


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_a_resumed_run_equals_the_straight_run_bit_for_bit(straight, build, sharing):
    again = build("resumed", **settings(sharing))
    assert not equal(weights(straight(sharing)), weights(again))
    goes_on(straight(sharing), again, 2)
    assert again.state.global_step == 4 and again.game.archive.last_played


def test_a_run_killed_in_the_middle_continues_in_its_folder(straight, build):
    with pytest.raises(Power):
        at_round(build("killed", **settings()), 3, die).train(
            resume_from_checkpoint="auto"
        )  # there is none: it starts
    again = ran(build("killed", **settings()), "true")  # as the command line passes it
    assert equal(weights(straight()), weights(again))
    assert rounds(straight().args.output_dir) == rounds(again.args.output_dir)
    discarded = Path(again.args.output_dir, "metrics.discarded.jsonl").read_text().splitlines()
    assert len(discarded) == 1  # round 3, played twice


LOOKING = {
    "evaluation": dict(eval_strategy="steps", eval_steps=1, num_generations_eval=4),
    "printing": dict(log_completions=True, num_completions_to_print=2, logging_steps=3, samples_per_log=0),
}


@pytest.mark.parametrize("name", LOOKING)
def test_what_only_looks_leaves_the_trajectory_bit_identical(straight, build, name, capsys):
    """Nor do saving and the guard, which the straight run had, and global random numbers that are drawn in between:
    rollouts are seeded by (seed, attempt, round, rank, role)."""
    looking = build(**settings(save_strategy="no", guard=False, **LOOKING[name]))
    results_of(looking, lambda *_: torch.rand(1000))
    looking.train()
    assert equal(weights(straight()), weights(looking))
    assert equal(optimizer_state(straight()), optimizer_state(looking))


@pytest.mark.parametrize("missing", ["optimizer.pt", "rng_state.pth", "selfplay_state.json", "complete.json"])
def test_a_checkpoint_without_one_of_its_parts_is_refused_by_name(copied, build, missing):
    (copied / "checkpoint-4" / missing).unlink()
    with pytest.raises(CheckpointError, match=missing.replace(".", r"\.")):
        build(**settings(max_steps=6)).train(resume_from_checkpoint=str(copied / "checkpoint-4"))


def test_a_checkpoint_of_another_engine_or_sharing_is_refused_by_name(copied, build):
    folder = copied / "checkpoint-4"
    with pytest.raises(CheckpointError, match="policy_sharing is full and this run's is tied"):
        build("other", **settings("tied", max_steps=6)).train(resume_from_checkpoint=str(folder))
    manifest = json.loads((folder / "complete.json").read_text())
    assert manifest["engine"] == "ddp" and manifest["optimizer"] == "optimizer.pt"
    (folder / "complete.json").write_text(json.dumps({**manifest, "engine": "zero3"}))
    with pytest.raises(CheckpointError, match="written under zero3 and this run uses ddp"):
        build(**settings(max_steps=6)).train(resume_from_checkpoint=str(folder))


def test_resume_takes_the_newest_complete_checkpoint_and_names_the_others(straight, copied, build, caplog):
    optimizer = copied / "checkpoint-4" / "optimizer.pt"
    optimizer.write_bytes(optimizer.read_bytes()[:100])  # a disk that was full
    again = ran(build(**settings()), True)
    assert "Skipping checkpoint-4: optimizer.pt has 100 bytes" in caplog.text
    assert equal(weights(straight()), weights(again))


def test_a_save_that_dies_leaves_no_checkpoint_and_the_next_one_is_whole(build, monkeypatch):
    short = {**SAVING, "max_steps": 1, "save_steps": 1}
    trainer = build(**short)
    finish = Store._finish

    def dies(store, folder, step):
        if step == 1:
            raise OSError("no space left on device")
        finish(store, folder, step)

    monkeypatch.setattr(Store, "_finish", dies)
    with pytest.raises(OSError):
        trainer.train()
    output = Path(trainer.args.output_dir)
    assert [p.name for p in sorted(output.glob("checkpoint-*"))] == ["checkpoint-0"]
    monkeypatch.setattr(Store, "_finish", finish)
    ran(build(**short), True)
    assert defect(output / "checkpoint-1", 1) is None and not (output / ".incomplete").exists()


def test_a_token_is_in_no_file_and_no_text(straight):
    args = straight().args
    assert args.hub_token == TOKEN and TOKEN not in repr(args) and TOKEN not in str(args)
    for path in Path(args.output_dir).rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_exported_policies_are_plain_folders_with_a_model_card(straight, sharing, tmp_path):
    trainer = straight(sharing)
    folders = trainer.exports.write(tmp_path / "exported")
    assert sorted(f.name for f in folders) == (["policy"] if sharing == "tied" else ["conjecturer", "prover"])
    assert [p.name for p in (tmp_path / "exported").iterdir() if p.is_file()] == []
    tokens = torch.tensor([[1, 15, 16, 17]])
    for folder in folders:
        assert (folder / "README.md").read_text().startswith("---\nlibrary_name:")
        loaded = AutoModelForCausalLM.from_pretrained(folder)  # PEFT folders load through transformers' integration
        with torch.no_grad(), trainer.policies.active("prover" if folder.name == "policy" else folder.name):
            assert torch.allclose(loaded(tokens).logits, trainer.policies.module(tokens).logits, atol=1e-5)
        assert len(AutoTokenizer.from_pretrained(folder)) == len(trainer.processing_class)


def test_the_cumulative_solve_rate_counts_the_data_sets_problems(straight):
    """The rate never falls and ends at (distinct anchors ever solved) / (data set)."""
    trainer = straight()
    lines = rounds(trainer.args.output_dir)
    rates = [line["round/cumulative_solve_rate"] for line in lines]
    assert rates == sorted(rates) and rates[0] > 0
    keys = set(problem_keys(trainer.train_dataset, trainer.domain))
    solved = {key for result in trainer.results for key, count, _ in result.solved if count}
    assert rates[-1] == len(solved & keys) / len(keys)
    assert [line["round/generations"] for line in lines] == [48, 96, 144, 192]  # 32 answers and 16 proposals a round


@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_a_finished_run_is_not_played_on_and_its_exports_leave_with_it(straight, build, sharing, tmp_path):
    folder = Path(shutil.copytree(straight(sharing).args.output_dir, tmp_path / "run"))
    again = build(**settings(sharing))
    assert again.train(resume_from_checkpoint=True).global_step == 4 == again.state.global_step
    assert equal(weights(straight(sharing)), weights(again)) and not (folder / "checkpoint-5").exists()
    assert remembered(straight(sharing)) == remembered(again)
    again.exports.write(folder)
    ran(build(**settings(sharing, max_steps=1)))
    assert (folder / "previous-1" / "prover").is_dir() and not (folder / "prover").exists()


# A round draws 8 anchors: 2 x 16 answers / groups of 4. So 24 anchors are three rounds an epoch.
A_ROUND, ROUNDS = 8, 9
REMEMBERING = dict(
    max_steps=ROUNDS, save_strategy="steps", save_steps=1, logging_steps=2, guard=True, beta=0.05, novelty_window=6,
    prover_objective="expert_iteration", conjecturer_objective="rae", use_adaptive_entropy=True, entropy_target=0.6,
    entropy_coef=0.01, eval_strategy="steps", eval_steps=3, num_generations_eval=2,
)  # fmt: skip
DROPOUT = LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
KINDS = ("full", "lora", "tied")
INSIDE = 4  # one round into the second epoch: README line 2 plays it
# `make test-matrices`: each step with full weights; with the other kinds, an edge and the inside of an epoch.
OTHERS = {"full": (1, 2, 3, 5, 6, 7, 8), "lora": (3, 4), "tied": (4, 6)}


def play(folder, kind, resume=None):
    extra = {"train_dataset": problems(3 * A_ROUND), "eval_dataset": problems(44).select(range(40, 44))}
    if kind == "lora":
        extra["peft_config"] = DROPOUT
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
def epochs_run(request, tmp_path_factory):
    return request.param, play(tmp_path_factory.mktemp(request.param) / "epochs_run", request.param)


@pytest.mark.parametrize(("epochs_run", "step"), list(cells()), indirect=["epochs_run"])
def test_a_resume_at_any_round_of_three_epochs_equals_the_straight_run(epochs_run, step, tmp_path):
    kind, whole = epochs_run
    resumed = play(tmp_path, kind, str(Path(whole.args.output_dir) / f"checkpoint-{step}"))
    assert resumed.anchors == {k: v for k, v in whole.anchors.items() if k >= step}
    assert equal(weights(whole), weights(resumed))
    assert equal(optimizer_state(whole), optimizer_state(resumed))
    assert held(whole) == held(resumed)
    for name in ("metrics", "samples"):
        assert lines(whole, name, step) == lines(resumed, name, step)


@pytest.mark.parametrize("epochs_run", ["full"], indirect=True)
def test_epochs_have_orders_of_their_own_and_each_plays_every_anchor_once(epochs_run):
    _, whole = epochs_run
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
    whole = ran(build("epochs_run", **settings))
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
