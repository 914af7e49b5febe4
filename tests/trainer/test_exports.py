# Tests: training/exports.py, policies/lora.py, training/trainer.py, training/run.py
"""What a run leaves is what it trained: adapters over bases without a name, and exports that are loaded again."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from countdown_selfplay.data.run_files import BASE
from countdown_selfplay.errors import ExportError
from countdown_selfplay.policies.build import load_pretrained
from countdown_selfplay.tiny import load_tiny_model

from .conftest import ran

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
