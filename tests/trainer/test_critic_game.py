# Tests: games/critic_discernment.py, training/losses.py
"""The Critic-Discernment Game with the tiny model: real turns, real steps, bit-exact resume."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.countdown.critique import CountdownCritique, steps_of
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.losses import RoleLoss
from tests.trainer.conftest import goes_on, make_trainer, ran, rounds, weights


class Talkative(CountdownCritique):
    """The shipped weights do not know the game: whatever a critic writes names the answer's first step, and a revision
    of an odd length rejects it."""

    def read_critique(self, text, answer):
        return next((step.text for step in steps_of(answer)), None)

    def rejections(self, text):
        return len(text.split()) % 2


class Game(CountdownDomain):
    critique = property(lambda self: Talkative(self.rules, self.prover_prompt))


CRITIC = {"num_generations": 2}
GAME = dict(
    game="critic_discernment", game_kwargs={"revisions": 2}, problems_per_round=8,
    conjecturer_num_generations=None, num_generations=2,
    roles={"helpful": CRITIC, "misleading": CRITIC}, trainer={"domain": Game.tiny()},
)  # fmt: skip


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    trainer = make_trainer(tmp_path_factory.mktemp("cdg") / "run", **GAME, save_steps=2, save_strategy="steps")
    before = weights(trainer)
    trainer.train()
    return trainer, before


def test_three_roles_learn_from_two_turns(straight):
    trainer, before = straight
    after, lines = weights(trainer), rounds(trainer.args.output_dir)
    for role in ("prover", "helpful", "misleading"):
        moved = [key for key in after if key.startswith(f"{role}:") and not after[key].equal(before[key])]
        # The shipped weights never mend an answer, so that the helpful critic may have nothing to learn from.
        assert bool(moved) == any(line[f"{role}/signal"] for line in lines) == (role != "helpful"), role
    assert len(lines) == 4 and all(0 <= line["helpful/read_rate"] <= 1 for line in lines)
    assert any(line["prover/trained_samples"] > 16 for line in lines)  # 8 x 2 first answers, and revisions
    samples = [json.loads(line) for line in Path(trainer.args.output_dir, "samples.jsonl").read_text().splitlines()]
    assert {sample["role"] for sample in samples} == {"prover", "helpful", "misleading"}
    assert any(sample["prompt"].startswith("again ") for sample in samples)


def test_a_resumed_run_is_the_straight_run(straight, tmp_path):
    goes_on(straight[0], make_trainer(tmp_path / "again", **GAME, save_strategy="no"), 2)


def test_the_supervised_term_reads_rows_that_the_objective_did_not_select(tmp_path, monkeypatch):
    """Appendix B's term, a mean over the tokens of right first answers. REINFORCE^1/2 drops questions of which both
    are right. Their log-probs are taken again row by row, without padding, by the model as transformers loads it: a
    run of one step has its weights still."""
    marked = []
    call = RoleLoss.__call__

    def watched(self, logps, entropies, batch):
        if self.settings.role == "prover":
            for i in batch.get("sft_mask", torch.zeros(1, 1)).any(1).nonzero().flatten().tolist():
                prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()]
                answer = batch["completion_ids"][i][batch["sft_mask"][i].bool()]
                marked.append((prompt, answer, bool(batch["completion_mask"][i].any())))
        return call(self, logps, entropies, batch)

    monkeypatch.setattr(RoleLoss, "__call__", watched)
    roles = {**GAME["roles"], "prover": {"sft_coef": 0.5, "objective": "reinforce_half"}}
    trainer = ran(make_trainer(tmp_path / "run", **{**GAME, "roles": roles, "max_steps": 1}, save_strategy="no"))
    (line,) = rounds(tmp_path / "run")
    assert {selected for *_, selected in marked} == {True, False}
    assert len(marked) == round(line["prover/correct_rate"] * 16)  # 8 questions x 2 answers
    model, temperature = AutoModelForCausalLM.from_pretrained(TINY_MODEL_PATH), trainer.roles["prover"].temperature
    total = 0.0
    for prompt, answer, _ in marked:
        with torch.no_grad():
            logits = model(torch.cat([prompt, answer])[None]).logits[0, len(prompt) - 1 : -1] / temperature
        total -= float(logits.log_softmax(-1).gather(1, answer[:, None]).sum())
    tokens = sum(len(answer) for _, answer, _ in marked)
    assert line["prover/sft_loss"] == pytest.approx(total / tokens, rel=1e-4)
