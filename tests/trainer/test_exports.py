# Tests: training/exports.py, policies/lora.py, training/trainer.py, training/run.py, training/callbacks/run_folder.py
"""What a run leaves: adapters, exports that are loaded again, and its before and after in a script."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerCallback

from countdown_selfplay.data.run_files import BASE
from countdown_selfplay.errors import ExportError
from countdown_selfplay.policies.build import load_pretrained
from countdown_selfplay.tiny import load_tiny_model
from tests.installed import MISSING
from tests.trainer.conftest import make_trainer

from .conftest import ran
from .test_round import problems

IDS = torch.tensor([[1, 5, 9, 4, 7, 3]])


@torch.no_grad()
def hidden(model):
    return model.eval().base_model(input_ids=IDS).last_hidden_state


def of_policy(trainer, role):
    with trainer.policies.active(role):
        return hidden(trainer.policies.module.get_base_model())


def moved(trainer):
    torch.manual_seed(0)
    with torch.no_grad():
        for name in trainer.policies.weight_names:
            for _, parameter in trainer.policies.named_parameters(name):
                parameter += 0.05 * torch.randn_like(parameter)


def test_adapters_over_a_changed_object_lie_beside_its_weights_and_can_be_moved(build, tmp_path):
    model, tokenizer = load_tiny_model()
    with torch.no_grad():
        model.model.norm.weight *= 0.5
    settings = dict(policy_sharing="lora", max_steps=1, save_strategy="steps", save_steps=1)
    trainer = ran(build("run", model=model, trainer={"processing_class": tokenizer}, **settings))
    moved(trainer)
    trainer.save_model()
    folder = tmp_path / "run"
    assert len(list(folder.rglob("model.safetensors"))) == 1  # of the base, once
    expected = {role: of_policy(trainer, role) for role in ("prover", "conjecturer")}
    assert not torch.allclose(expected["prover"], expected["conjecturer"], atol=0.1)
    for place in (folder, folder.rename(tmp_path / "elsewhere")):
        for role, values in expected.items() if place.exists() else ():
            found = load_pretrained(str(place / role), {"dtype": "float32"})
            torch.testing.assert_close(hidden(found), values, rtol=1e-4, atol=1e-4)
    found = load_pretrained(str(tmp_path / "elsewhere" / "checkpoint-1" / "prover"), {"dtype": "float32"})
    assert torch.equal(found.model.norm.weight, model.model.norm.weight)
    shutil.rmtree(tmp_path / "elsewhere" / BASE)


@pytest.mark.parametrize("sharing", ["full", pytest.param("lora", marks=pytest.mark.slow)])
def test_an_export_that_is_not_the_policy_is_kept_and_named(sharing, build, tmp_path, monkeypatch):
    trainer = build("run", policy_sharing=sharing)
    moved(trainer)
    trainer.save_model()
    stock = trainer.policies.export

    def wrong(name, folder, state=None):
        """One value of the conjecturer's is another."""
        stock(name, folder, state)
        (file,) = folder.glob("*.safetensors")
        tensors = load_file(file)
        if name == "conjecturer":
            next(value for key, value in sorted(tensors.items()) if "q_proj" in key).view(-1)[0] += 5.0
        save_file(tensors, file, metadata={"format": "pt"})

    monkeypatch.setattr(trainer.policies, "export", wrong)
    with pytest.raises(ExportError, match=r"^'.*/conjecturer' is kept, but it is not the policy.* nats a token\. Do"):
        trainer.save_model()
    assert (tmp_path / "run" / "conjecturer" / "README.md").exists()
    state = torch.get_rng_state()
    (prover, said, right), (_, _, wrong_one) = trainer.exports.write_last(tmp_path / "run")
    assert (prover.name, said, right, wrong_one) == ("prover", "", True, False)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.setattr("countdown_selfplay.training.exports.LARGE", 1000)
    assert all(right and "not loaded again" in said for _, said, right in trainer.exports.write_last(tmp_path / "run"))


class Tracker(TrainerCallback):
    """As TensorBoard's: it knows the run's folder once training begins, and a log before that opens another one."""

    def __init__(self):
        self.open, self.steps = False, []

    def on_train_begin(self, args, state, control, **kwargs):
        self.open = True

    def on_log(self, args, state, control, logs=None, **kwargs):
        assert self.open
        self.steps += [state.global_step] * ("eval_pass@1" in logs)


def evaluating(folder, **changes):
    changes = {"num_generations_eval": 4, "save_strategy": "steps", "save_steps": 1, **changes}
    given = {"eval_dataset": problems(16), "callbacks": [tracker := Tracker()]}
    trainer = make_trainer(folder, trainer=given, **changes)
    trainer.tracker = tracker
    return trainer


def evaluations(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], line["eval_pass@1"]) for line in lines if "eval_pass@1" in line]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder of a script that played two rounds, with the loop's evaluation at the last one, and what it saw."""
    place = tmp_path_factory.mktemp("script")
    trainer = evaluating(place / "run", max_steps=2, eval_strategy="steps", eval_steps=2)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    if "lab" not in MISSING:
        trainer.report()
    assert trainer.tracker.steps == [0, 2, 2]
    return place / "run", before, after


def test_the_log_has_each_evaluation_in_the_folder_of_the_run(played):
    """That of the loop at the last step has draws of its own."""
    folder, before, after = played
    (first, _, last) = found = evaluations(folder)
    assert (first, last) == ((0, before["eval_pass@1"]), (2, after["eval_pass@1"])) and found[1][0] == 2
    assert list(folder.glob("previous-*")) == []


def test_the_first_and_the_last_one_are_before_and_after(played):
    folder, before, after = played
    found = json.loads((folder / "evaluation.json").read_text())
    for when, seen in (("before", before), ("after", after)):
        side = found[when]["prover"]
        assert sum(side["correct"]) / 64 == pytest.approx(seen["eval_pass@1"]) and side["n"] == 4  # 16 problems
        assert len(side["keys"]) == len(side["correct"]) == 16
    counts = [sum(found[when]["prover"]["correct"]) for when in ("before", "after")]
    assert found["difference"]["pass@1"][0] == pytest.approx((counts[1] - counts[0]) / 64)
    assert set(found["difference"]) == {"pass@1", "pass@4"}


def test_a_resume_leaves_the_runs_first_evaluation(played):
    folder, *_ = played
    first = json.loads((folder / "evaluation.json").read_text())["before"]
    again = evaluating(folder, max_steps=3)
    again.evaluate()
    again.train(resume_from_checkpoint=True)
    last = again.evaluate()
    (_, *rest) = evaluations(folder)
    assert [step for step, _ in rest] == [2, 2, 3] and rest[-1][1] == last["eval_pass@1"]
    found = json.loads((folder / "evaluation.json").read_text())
    assert found["before"] == first and sum(found["after"]["prover"]["correct"]) / 64 == last["eval_pass@1"]


@pytest.mark.matrix
def test_other_problems_and_another_run_of_the_same_trainer_are_no_pair(tmp_path):
    trainer = evaluating(tmp_path / "run", max_steps=1)
    trainer.train()
    trainer.evaluate()
    assert not (tmp_path / "run" / "evaluation.json").exists()  # nobody has measured the start
    trainer.evaluate(problems(4), metric_key_prefix="few")
    trainer.train()  # the trained weights start another run, and the first is set aside
    trainer.evaluate()
    assert not (tmp_path / "run" / "evaluation.json").exists() and (tmp_path / "run" / "previous-1").is_dir()


def test_what_a_script_measures_before_training_is_what_the_command_measures(tmp_path):
    """The same draws: seed and batches are those of the command, whose counts `measure` gives."""
    trainer = evaluating(tmp_path, max_steps=1)
    held_out = [trainer.domain.problem(row, i) for i, row in enumerate(problems(16))]
    of_the_command = trainer.evaluator.measure(held_out, 4, "before training")["prover"]["correct"]
    trainer.evaluate()
    trainer.train()
    trainer.evaluate()
    written = json.loads((tmp_path / "evaluation.json").read_text())
    assert written["before"]["prover"]["correct"] == of_the_command
