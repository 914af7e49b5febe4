# Tests: generation/colocate.py, training/rollouts.py
"""Answers in moves with vLLM in the training process: log-probs by row, a later move once an episode."""

import itertools

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.random_state import seed_from
from countdown_selfplay.tiny import LADDER_MODEL_PATHS
from countdown_selfplay.training.plan import collate
from countdown_selfplay.training.round_loop import RoundLoop
from tests.trainer.conftest import equal, on_sample, ran, rounds, weights
from tests.trainer.test_moves import SMALL

from .conftest import VLLM

pytestmark = pytest.mark.vllm

GROUP, PROBLEMS = 4, 8
CONFIG = {
    **SMALL, **VLLM, "problems_per_round": PROBLEMS, "prover_num_generations": GROUP,
    "operands": [2, 3, 4], "prover_objective": "rloo", "prover_objective_kwargs": None, "prover_sequences_per_step": 0,
    "prover_demonstrations_per_step": 0, "prover_sft_coef": 0.0,
    "prover_max_completion_length": 8, "conjecturer_model": None, "steps_per_round": 1, "max_steps": 2,
    "use_cpu": True,
}  # fmt: skip
WIDE = 32  # of a head: vLLM's attention takes none of 16 on a CPU


@pytest.fixture(scope="module")
def wide_prover(tmp_path_factory):
    """The ladder's prover with heads of 32 instead of 16, the same function. The new entries of queries, keys and
    values are 0. The 8 rotated pairs take every second place of the 16, whose angles are those of the 8. The norm of a
    head is over twice as many entries, so what it gives is sqrt(2) times as large; the scores are divided by sqrt(32)
    instead of sqrt(16): the queries keep the factor, the keys' weights give it back."""
    source = LADDER_MODEL_PATHS["prover"]
    narrow = AutoModelForCausalLM.from_pretrained(str(source), dtype="float32")
    config = type(narrow.config)(**{**narrow.config.to_dict(), "head_dim": WIDE})
    wide, state = AutoModelForCausalLM.from_config(config, dtype="float32"), narrow.state_dict()
    half = torch.arange(narrow.config.head_dim // 2)
    place = torch.cat([2 * half, 2 * half + WIDE // 2])
    all_heads = (torch.arange(config.num_attention_heads)[:, None] * WIDE + place).flatten()
    for name, value in wide.state_dict().items():
        own = state[name]
        if value.shape == own.shape:
            value.copy_(own)
        elif name.endswith("o_proj.weight"):
            value.zero_()[:, all_heads] = own
        elif value.dim() == 2:
            value.zero_()[all_heads] = own
        else:
            value.zero_()[place] = own / 2**0.5 if "k_norm" in name else own
    folder = tmp_path_factory.mktemp("wide")
    wide.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(str(source))
    tokenizer.save_pretrained(folder)
    ids = torch.tensor([tokenizer("3 4 5 : 24")["input_ids"]])
    with torch.no_grad():
        torch.testing.assert_close(wide(ids).logits, narrow(ids).logits, rtol=0, atol=1e-4)
    return str(folder)


def build(folder, model, **changes):
    config = JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir=str(folder), **{**CONFIG, **changes})
    return JointConjecturerProverTrainer(model, args=config)


class Rows:
    """What was played, and how far the log-probs beside the prover's training rows are from the model's own."""

    def __init__(self, trainer, monkeypatch):
        self.trainer, self.played, self.gaps, self.shifted = trainer, [], [], []
        play = RoundLoop.play

        def cut(player, rows):
            steps = play(player, rows)
            for step in steps:
                for role, samples in itertools.chain.from_iterable(one.parts for one in step.passes):
                    if role == "prover":
                        self._compare(collate(samples, trainer.accelerator.device))
            return steps

        monkeypatch.setattr(RoundLoop, "play", cut)
        on_sample(trainer, lambda role, rollout: role == "prover" and self.played.append(rollout))

    @property
    def key(self):
        """Of the move at hand."""
        frame = self.trainer.counts
        return (frame.rounds, frame.turn, frame.move)

    def _compare(self, batch):
        """Before the round's step, whose weights sampled it."""
        mask = batch["completion_mask"].bool()
        if not mask.any():
            return
        ids, masks = (torch.cat([batch[f"prompt_{what}"], batch[f"completion_{what}"]], 1) for what in ("ids", "mask"))
        with self.trainer.policies.active("prover"), torch.no_grad():
            score = self.trainer._get_per_token_logps_and_entropies
            logps, *_ = score(self.trainer.model_wrapped, ids, masks, mask.size(1))
        sampler = batch["sampling_per_token_logps"]
        self.gaps.append(float((logps - sampler)[mask].abs().max()))
        self.shifted.append(float((logps - sampler.roll(1, 0))[mask].nan_to_num().abs().max()))

    def check(self, asked, episodes):
        """asked: (round, turn, move) -> samples that the engine was asked for. One for each live episode."""
        assert max(self.gaps) < 1e-4, self.gaps
        assert max(self.shifted) > 0.1  # with those of the row above: the comparison would see it
        assert len(self.played) == 2
        for round_, played in enumerate(self.played):
            assert len(played.texts) == episodes and len(played.moves) > 1
            assert [key[2] for key in asked if key[:2] == (round_, 2)] == list(range(len(played.moves)))
            live = episodes  # the first move of each, then a move of those that go on
            for move, (rollout, own) in enumerate(zip(played.moves, played.episode_of, strict=True)):
                rows = rollout.tensors["completion_ids"].size(0)
                assert asked[round_, 2, move] == len(rollout.texts) == len(own) == rows
                assert len(own) <= live
                live = len(own)
            assert played.lengths == [text.count("\n") + 1 for text in played.texts]
            assert sum(played.lengths) == sum(len(rollout.texts) for rollout in played.moves)


def test_log_probs_lie_beside_their_rows_and_later_moves_are_sampled_once_an_episode(
    tmp_path, wide_prover, monkeypatch
):
    trainer = build(tmp_path, wide_prover)
    rows, before, asked, seeds = Rows(trainer, monkeypatch), weights(trainer), {}, {}
    engine = trainer.sampler.generation.llm
    generate = engine.llm.generate

    def seen(prompts, *args, **kwargs):
        assert rows.key not in asked
        asked[rows.key], seeds[rows.key] = len(prompts), torch.initial_seed()
        return generate(prompts, *args, **kwargs)

    monkeypatch.setattr(engine.llm, "generate", seen)
    trainer.train()
    rows.check(asked, GROUP * PROBLEMS)
    assert len(set(seeds.values())) == len(seeds)
    for (round_, turn, move), seed in seeds.items():
        role = "conjecturer" if turn == 1 else "prover"
        assert seed == seed_from(0, "vllm", 0, round_, turn, *([move] if move else []), 0, role)
    after = weights(trainer)
    assert any(not torch.equal(before[k], after[k]) for k in after if k.startswith("prover:"))
    for line in rounds(tmp_path):
        assert line["prover/moves"] > 1 and line["prover/sampler_logp_difference_max"] < 1e-4
        assert line["prover/sampler_weight"] == pytest.approx(1.0, abs=1e-3)


def test_the_same_seed_gives_the_same_episodes_with_kept_answers_and_demonstrations(tmp_path, wide_prover):
    """Expert iteration with reuse, as in the recipe: steps are bought by right answers, and kept rows have the
    sampler's log-probs of their time."""
    again = {name: SMALL[name] for name in SMALL if name.startswith("prover_")}
    again |= {"prover_objective": "expert_iteration", "prover_sft_coef": 0.35, "steps_per_round": 3}
    found = []
    for name in ("a", "b"):
        trainer = ran(build(tmp_path / name, wide_prover, **again))
        kept = [row.completion.tolist() for answer in trainer.learners["prover"].replay.kept for row in answer]
        found.append((weights(trainer), kept))
    assert equal(found[0][0], found[1][0]) and found[0][1] == found[1][1] and found[0][1]
    lines = rounds(tmp_path / "a")
    assert sum(line["prover/steps"] for line in lines) > 0
