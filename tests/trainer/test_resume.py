# Tests: training/store.py, training/exports.py, training/checkpoints.py
"""Stop at a round and resume = straight run, bit for bit on the CPU; and nothing that only looks changes the
trajectory."""

import json
from pathlib import Path

import pytest
import torch

from countdown_selfplay.data.anchors import problem_keys
from countdown_selfplay.errors import CheckpointError

from .conftest import equal, optimizer_state, ran, remembered, rounds, weights
from .test_round import LORA, problems


def sharing_arguments(sharing):
    return {"policy_sharing": sharing, "trainer": {"peft_config": LORA} if sharing == "lora" else {}}


SAVING = dict(save_strategy="steps", save_steps=2, beta=0.05, novelty_window=3, guard=True)


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_a_resumed_run_equals_the_straight_run_bit_for_bit(build, sharing):
    straight = ran(build("straight", max_steps=4, **SAVING, **sharing_arguments(sharing)))
    resumed = ran(
        build("resumed", max_steps=4, **SAVING, **sharing_arguments(sharing)),
        str(Path(straight.args.output_dir) / "checkpoint-2"),
    )
    assert resumed.state.global_step == 4
    assert equal(weights(straight), weights(resumed))
    assert equal(optimizer_state(straight), optimizer_state(resumed))
    assert remembered(straight) == remembered(resumed) and straight.game.archive.last_played
    assert straight.guard == resumed.guard
    assert rounds(straight.args.output_dir)[2:] == rounds(resumed.args.output_dir)


def test_a_run_killed_in_the_middle_continues_in_its_folder(build):
    straight = ran(build("straight", max_steps=4, **SAVING))
    killed = build("killed", max_steps=4, **SAVING)

    class Power(Exception):
        pass

    played = killed.game.play
    killed.game.play = lambda round, anchors: (
        played(round, anchors) if round.index < 3 else (_ for _ in ()).throw(Power())
    )
    with pytest.raises(Power):
        killed.train()
    again = build("killed", max_steps=4, **SAVING)
    again.train(resume_from_checkpoint="true")  # as the command line passes it
    assert equal(weights(straight), weights(again))
    assert rounds(straight.args.output_dir) == rounds(again.args.output_dir)
    assert (
        len(Path(again.args.output_dir, "metrics.discarded.jsonl").read_text().splitlines()) == 1
    )  # round 3, played twice


@pytest.mark.parametrize(
    "changes",
    [
        {"eval_strategy": "steps", "eval_steps": 1, "num_generations_eval": 4, "eval": True},
        {"log_completions": True, "num_completions_to_print": 2},
        {"save_strategy": "steps", "save_steps": 1, "guard": True},
        {"logging_steps": 3, "samples_per_log": 0},
    ],
    ids=["evaluation", "printing", "saving", "logging"],
)
def test_what_only_looks_leaves_the_trajectory_bit_identical(build, changes, capsys):
    changes = dict(changes)
    plain = ran(build("plain"))
    arguments = {"eval_dataset": problems(8)} if changes.pop("eval", False) else {}
    looking = build("looking", trainer=arguments, **changes)
    if arguments:  # a data set of held-out problems alone is also a filter on proposals
        plain = ran(build("plain", trainer=arguments))
    looking.train()
    assert equal(weights(plain), weights(looking))
    assert equal(optimizer_state(plain), optimizer_state(looking))


def test_the_global_random_state_has_no_say_in_the_trajectory(build):
    """Rollouts are seeded by (seed, attempt, round, rank, role): drawing global numbers in between changes nothing."""
    quiet = ran(build("quiet"))
    noisy = build("noisy")
    played = noisy.game.play

    def play(round, anchors):
        torch.rand(1000)
        return played(round, anchors)

    noisy.game.play = play
    noisy.train()
    assert equal(weights(quiet), weights(noisy))


@pytest.mark.parametrize("missing", ["optimizer.pt", "rng_state.pth", "selfplay_state.json", "complete.json"])
def test_a_checkpoint_without_one_of_its_parts_is_refused_by_name(build, missing):
    trainer = build(max_steps=2, **SAVING)
    trainer.train()
    folder = Path(trainer.args.output_dir) / "checkpoint-2"
    (folder / missing).unlink()
    with pytest.raises(CheckpointError, match=missing.replace(".", r"\.")):
        build(max_steps=4, **SAVING).train(resume_from_checkpoint=str(folder))


def test_a_checkpoint_of_another_engine_is_refused_by_name(build):
    trainer = ran(build(max_steps=2, **SAVING))
    folder = Path(trainer.args.output_dir) / "checkpoint-2"
    manifest = json.loads((folder / "complete.json").read_text())
    assert manifest["engine"] == "ddp" and manifest["optimizer"] == "optimizer.pt"
    (folder / "complete.json").write_text(json.dumps({**manifest, "engine": "zero3"}))
    with pytest.raises(CheckpointError, match="written under zero3 and this run uses ddp"):
        build(max_steps=4, **SAVING).train(resume_from_checkpoint=str(folder))


def test_resume_takes_the_newest_complete_checkpoint_and_names_the_others(build, caplog):
    trainer = ran(build(max_steps=4, **SAVING))
    optimizer = Path(trainer.args.output_dir) / "checkpoint-4" / "optimizer.pt"
    optimizer.write_bytes(optimizer.read_bytes()[:100])  # a disk that was full
    again = ran(build(max_steps=4, **SAVING), True)
    assert "Skipping checkpoint-4: optimizer.pt has 100 bytes" in caplog.text
    assert equal(weights(trainer), weights(again))


def test_a_save_that_dies_leaves_no_checkpoint_and_the_next_one_is_whole(build, monkeypatch):
    from countdown_selfplay.training.checkpoints import defect
    from countdown_selfplay.training.store import Store

    trainer = build(max_steps=2, **SAVING)
    finish = Store._finish

    def dies(store, folder, step):
        if step == 2:
            raise OSError("no space left on device")
        finish(store, folder, step)

    monkeypatch.setattr(Store, "_finish", dies)
    with pytest.raises(OSError):
        trainer.train()
    output = Path(trainer.args.output_dir)
    assert [p.name for p in sorted(output.glob("checkpoint-*"))] == ["checkpoint-0"]
    monkeypatch.setattr(Store, "_finish", finish)
    ran(build(max_steps=2, **SAVING), True)
    assert defect(output / "checkpoint-2", 1) is None and not (output / ".incomplete").exists()


def test_a_resume_with_another_sharing_is_refused(build):
    trainer = build(max_steps=2, **SAVING)
    trainer.train()
    folder = str(Path(trainer.args.output_dir) / "checkpoint-2")
    with pytest.raises(CheckpointError, match="policy_sharing is full and this run's is tied"):
        build("other", max_steps=4, policy_sharing="tied", **SAVING).train(resume_from_checkpoint=folder)


def test_there_must_be_something_to_resume_from(build):
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        build(**SAVING).train(resume_from_checkpoint=True)


def test_a_token_is_in_no_file_and_no_text(build):
    token = "hf_" + "s3cr3t" * 5
    trainer = build(max_steps=2, hub_token=token, **SAVING)
    assert trainer.args.hub_token == token
    trainer.train()
    for path in Path(trainer.args.output_dir).rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes(), path
    assert token not in repr(trainer.args) and token not in str(trainer.args)


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_exported_policies_are_plain_folders_with_a_model_card(build, sharing, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    trainer = ran(build(max_steps=2, **SAVING, **sharing_arguments(sharing)))
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


def test_the_state_file_is_plain_json(build):
    trainer = ran(build(max_steps=2, **SAVING))
    state = json.loads((Path(trainer.args.output_dir) / "checkpoint-2" / "selfplay_state.json").read_text())
    assert state["states"]["frame"]["state"]["rounds"] == 2
    assert state["states"]["frame"]["state"]["samples"] == {"prover": 2 * 32, "conjecturer": 2 * 16}


def test_the_cumulative_solve_rate_counts_the_data_sets_problems_and_survives_a_restart(build):
    """The rate never falls, ends at (distinct anchors ever solved) / (data set), and goes on where it stopped."""
    straight = build("straight", max_steps=4, **SAVING)
    solved, play = set(), straight.game.play

    def spy(round, anchors):
        result = play(round, anchors)
        solved.update(key for key, count, _ in result.solved if count)
        return result

    straight.game.play = spy
    straight.train()
    lines = rounds(straight.args.output_dir)
    rates = [line["round/cumulative_solve_rate"] for line in lines]
    assert rates == sorted(rates) and rates[0] > 0
    keys = problem_keys(straight.train_dataset, straight.domain)
    assert rates[-1] == len(solved & keys) / len(keys)
    assert [line["round/generations"] for line in lines] == [48, 96, 144, 192]  # 32 answers and 16 proposals a round
    resumed = ran(build("resumed", max_steps=4, **SAVING), str(Path(straight.args.output_dir) / "checkpoint-2"))
    assert [line["round/cumulative_solve_rate"] for line in rounds(resumed.args.output_dir)] == rates[2:]


@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_a_finished_run_is_not_played_on_and_its_exports_leave_with_it(build, sharing):
    settings = dict(policy_sharing=sharing, max_steps=2, save_strategy="steps", save_steps=2)
    extra = {"trainer": {"peft_config": LORA}} if sharing == "lora" else {}
    straight = ran(build("run", **settings, **extra))
    again = build("run", **settings, **extra)
    assert not equal(weights(straight), weights(again))
    assert again.train(resume_from_checkpoint=True).global_step == 2
    assert equal(weights(straight), weights(again)) and remembered(straight) == remembered(again)
    folder = Path(straight.args.output_dir)
    assert again.state.global_step == 2 and not (folder / "checkpoint-3").exists()
    straight.exports.write(folder)
    build("run", **{**settings, "max_steps": 1}, **extra).train()
    assert (folder / "previous-1" / "prover").is_dir() and not (folder / "prover").exists()
