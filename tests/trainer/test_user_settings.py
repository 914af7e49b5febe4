# Tests: training/trainer.py, policies/forward.py, training/parts.py, policies/build.py, config/rules.py
"""What a user may bring along: checkpointing, precision, optimizers, small data, chats; and what is refused."""

import logging

import pytest
import torch

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.policies.build import _one_tokenizer
from countdown_selfplay.tiny import load_tiny_model
from countdown_selfplay.training.parts import warn_of_lost_steps
from tests.zoo.families import WORDS, tokenizer

from .conftest import ran, rounds, weights
from .test_round import LORA


@pytest.mark.parametrize("sharing", ["lora", pytest.param("tied", marks=pytest.mark.matrix)])
def test_gradient_checkpointing_changes_no_roles_gradient(build, sharing):
    """Backward runs the forward pass again, and must find the same adapter active as the first time."""
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    lines, ends = [], []
    for checkpointing in (False, True):
        settings = dict(max_steps=1, policy_sharing=sharing, gradient_checkpointing=checkpointing)
        trainer = ran(build(f"run-{checkpointing}", **settings, trainer=extra))
        lines.append(rounds(trainer.args.output_dir)[0])
        ends.append(weights(trainer))
    for name in [name for name in lines[0] if name.startswith("grad_norm/")]:
        assert lines[1][name] == pytest.approx(lines[0][name], rel=1e-4), name
    for key in ends[0]:  # Adam's first steps have size lr = 1e-3 whatever the gradient; rounding alone differs
        assert torch.allclose(ends[0][key], ends[1][key], atol=2e-4), key


def test_samples_are_drawn_in_the_precision_of_the_loss(build):
    trainer = build(bf16=True, max_steps=1)
    seen = {"generate": set(), "loss": set()}
    head = trainer.policies.module.policies["prover"].model.norm

    def watch(module, arguments, output):
        seen["loss" if torch.is_grad_enabled() else "generate"].add(torch.is_autocast_enabled("cpu"))

    head.register_forward_hook(watch)
    trainer.train()
    assert seen == {"generate": {True}, "loss": {True}}


def test_a_users_optimizer_is_taken_when_it_holds_every_role(build):
    (prover, tokenizer), (conjecturer, _) = load_tiny_model(), load_tiny_model()
    groups = [
        {"params": list(prover.parameters()), "lr": 1e-3},
        {"params": list(conjecturer.parameters()), "lr": 5e-4},
    ]
    optimizer = torch.optim.SGD(groups)
    trainer = build(
        model={"prover": prover, "conjecturer": conjecturer}, max_steps=1,
        trainer={"optimizers": (optimizer, None), "processing_class": tokenizer},
    )  # fmt: skip
    before = weights(trainer)
    trainer.train()
    line = rounds(trainer.args.output_dir)[0]
    assert (line["lr/prover"], line["lr/conjecturer"]) == (1e-3, 5e-4)
    assert any(not torch.equal(before[k], v) for k, v in weights(trainer).items() if k.startswith("conjecturer"))


def test_an_optimizer_without_a_roles_parameters_is_refused(build):
    model, tokenizer = load_tiny_model()
    with pytest.raises(ConfigError, match=r"holds no parameter of conjecturer.*pass two objects"):
        build(
            model=model,
            trainer={"optimizers": (torch.optim.SGD(model.parameters()), None), "processing_class": tokenizer},
        )


def test_groups_need_not_divide_the_samples_of_both_roles_together(build):
    # 16 x 2 = 32 answers in groups of 32 (one problem), while the round has 48 samples: the loader repeats 16
    trainer = ran(build(max_steps=1, problems_per_round=1, num_generations=16, prover_num_generations=32))
    line = rounds(trainer.args.output_dir)[0]
    assert line["round/anchor_slots"] + line["round/conjectured_slots"] == 1
    assert trainer.roles["prover"].num_generations == 32


def test_trainable_tensors_of_no_role_are_refused(build):
    from peft import LoraConfig

    stray = LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"], task_type="CAUSAL_LM")
    with pytest.raises(ConfigError, match=r"embed_tokens.* would be trained by no role"):
        build(policy_sharing="lora", trainer={"peft_config": stray}).train()


def test_tokenizers_of_one_size_with_other_words_are_told_apart(tmp_path):
    swapped = {word: i for i, word in enumerate([*WORDS[:6], *WORDS[6:][::-1]])}
    tokenizer().save_pretrained(tmp_path / "a")
    tokenizer().save_pretrained(tmp_path / "b")
    other = (tmp_path / "c" / "tokenizer.json").parent
    tokenizer().save_pretrained(other)
    text = (other / "tokenizer.json").read_text().replace('"a": 16', f'"a": {swapped["a"]}')
    (other / "tokenizer.json").write_text(text)
    first, same, unlike = (str(tmp_path / name) for name in "abc")
    assert _one_tokenizer([first, same], False) and not _one_tokenizer([first], False)
    with pytest.raises(ConfigError, match=r"must share one tokenizer.*'a'"):
        _one_tokenizer([first, unlike], False)
    assert not _one_tokenizer([first, str(tmp_path)], False)  # sizes are compared where no tokenizer lies


class Weights:
    """Half of the weights are 1, whose neighbours in bfloat16 are 2^-8 below and 2^-7 above; half are 0."""

    weight_names, module = ("one",), torch.nn.Linear(1, 1)

    def named_parameters(self, name):
        return [("weight", torch.tensor([1.0] * 6 + [0.0] * 4).bfloat16())]


@pytest.mark.parametrize(("rate", "warned"), [(1e-6, True), (2.1e-3, False)])  # a step of 2^-9 = 1.95e-3 moves a 1
def test_steps_that_round_away_are_named_by_their_share(rate, warned, caplog):
    with caplog.at_level(logging.WARNING):
        warn_of_lost_steps(Weights(), rate)
    assert ("moves about 40% of them" in caplog.text) == warned
