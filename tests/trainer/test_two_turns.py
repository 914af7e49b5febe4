# Tests: training/credit.py, objectives/rae.py
"""A role with two turns of different size in a round: its mean reward, its line of the log and its completions are
those of both."""

from pathlib import Path
from typing import ClassVar

import pandas
import pytest

from countdown_selfplay.contract.game import BaseGame
from countdown_selfplay.contract.round import RoundResult

from .conftest import make_trainer, rounds


class TwoTurns(BaseGame):
    """Two problems: 8 answers that earn 1 each, and in the first round 24 more that earn 0. In the second round the
    second turn is empty."""

    roles: ClassVar = {"prover": "answers twice"}
    metrics = ()

    def __init__(self):
        self.results = []

    def play(self, round, anchors):
        problems = anchors[:2]
        again = problems if round.index == 0 else []
        turns = []
        for asked, n, reward in ((problems, 4, 1.0), (again, 12, 0.0)):
            said = round.sample("prover", [round.domain.prove_row(p) for p in asked], n=n, problems=asked)
            turns.append(round.credit(said, [reward] * len(said.texts)))
        self.results.append(RoundResult(turns, {}))
        return self.results[-1]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """(the trainer, what `observe` was handed, by round)."""
    sizes, seen, game = [], [], TwoTurns()

    def count(completions, **kwargs):
        """1 for each sample of the first turn of a round, 0 for each of the second: 8 and 24 are asked for."""
        sizes.append(len(completions))
        return [float(len(completions) == 8)] * len(completions)

    trainer = make_trainer(
        tmp_path_factory.mktemp("two"),
        max_steps=2,
        game=None,
        roles={"prover": {"objective": "rae"}},
        conjecturer_micro_batches=None,
        conjecturer_num_generations=None,
        max_completion_length=4,
        guard=False,
        log_completions=True,
        trainer={"game": game, "reward_funcs": count},
    )
    rae = trainer.learners["prover"].objective
    observe = rae.observe
    rae.observe = lambda mean: (seen.append(mean), observe(mean))
    trainer.train()
    assert sizes == [8, 24, 8]
    return trainer, seen


def test_the_objective_observes_the_mean_of_all_samples_of_all_turns(played):
    """8 x 1 and 24 x 0: 8 / 32. Then 8 x 1 alone. RAE's baseline: .25, then .95 x .25 + .05 x 1."""
    trainer, seen = played
    assert seen == [0.25, 1.0]
    assert trainer.learners["prover"].objective.baseline == pytest.approx(0.2875)


def test_a_reward_functions_mean_is_that_of_all_samples(played):
    trainer, _ = played
    assert [line["prover/rewards/count"] for line in rounds(trainer.args.output_dir)] == [0.25, 1.0]


def test_the_table_of_completions_holds_every_turn(played):
    trainer, _ = played
    for step, result in enumerate(trainer.game.results, 1):
        table = pandas.read_parquet(Path(trainer.args.output_dir, "completions", f"completions_{step:05d}.parquet"))
        texts = [text for turn in result.turns for text in turn.rollout.texts]
        assert table["completion"].tolist() == texts and len(texts) == (32, 8)[step - 1]
        assert table["reward"].tolist() == [1.0] * 8 + [0.0] * (len(texts) - 8) == table["count"].tolist()
        assert table["advantage"].tolist() == pytest.approx([a for t in result.turns for a in t.advantages_B.tolist()])
