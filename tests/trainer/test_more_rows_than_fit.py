# Tests: training/credit.py, training/window.py
"""A game that samples more than a role's micro-batches hold: the step is that of a run in which everything fits."""

from typing import ClassVar

import pytest

from countdown_selfplay.contract.game import BaseGame
from countdown_selfplay.contract.round import RoundResult

from .conftest import make_trainer, ran, rounds


class Sparse(BaseGame):
    """16 problems with 4 answers each, of which those of the first 4 problems have credit."""

    roles: ClassVar = {"prover": "answers"}
    metrics = ()

    def play(self, round, anchors):
        problems = round.domain.random(16, 0, frozenset())
        said = round.sample("prover", [round.domain.prove_row(p) for p in problems], problems=problems)
        return RoundResult([round.credit(said, [1.0, 0.0, 0.0, 0.5] * 4 + [0.0] * 48)], {})


@pytest.mark.parametrize("objective", ["rloo", "grpo"])
def test_rows_without_credit_that_find_no_room_do_not_make_the_step_larger(tmp_path, objective):
    """64 samples, 16 of them with credit, in room for 32 and for 64."""
    found = []
    for batches in (2, 4):
        ran(
            make_trainer(
                tmp_path / str(batches),
                max_steps=1,
                game=None,
                roles={"prover": {"objective": objective}},
                prover_micro_batches=batches,
                conjecturer_micro_batches=None,
                conjecturer_num_generations=None,
                max_completion_length=6,
                trainer={"game": Sparse()},
            )
        )
        found.append(rounds(tmp_path / str(batches))[0])
    few, all_ = found
    assert (few["prover/trained_samples"], all_["prover/trained_samples"]) == (32, 64)
    assert few["grad_norm/prover"] == pytest.approx(all_["grad_norm/prover"], rel=1e-3) and few["grad_norm/prover"] > 0
    assert "prover/dropped_rows" not in few  # none of them had credit
