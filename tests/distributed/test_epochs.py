# Tests: data/anchors.py, training/store.py
"""Resumes in the second epoch and at its edge on two real processes, where accelerate's `set_epoch` does not reach the
sampler. One launch (epochs_worker.py) plays everything."""

import pytest

from .two_processes import ranks_of

pytestmark = pytest.mark.distributed

# Two processes draw 2 x 8 anchors a round: 48 are three rounds an epoch. 3 is the edge, 4 inside the second epoch.
AN_EPOCH, RESUMES = 48, (3, 4)
CONFIG = dict(
    max_steps=6, save_strategy="steps", save_steps=1, logging_steps=4, beta=0.05, novelty_window=3, guard=True,
    prover_objective="expert_iteration", use_adaptive_entropy=True, entropy_target=0.6, entropy_coef=0.01,
)  # fmt: skip


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    job = dict(problems_an_epoch=AN_EPOCH, resumes=RESUMES, config=CONFIG)
    return ranks_of("ddp", "epochs_worker", tmp_path_factory.mktemp("epochs"), **job)


def test_a_resume_in_the_second_epoch_equals_the_straight_run_on_both_ranks(ranks):
    straight = ranks[0]["straight"]
    first, second = ([key for r in rounds for key in straight["anchors"][r]] for rounds in ("012", "345"))
    assert straight["processes"] == 2 and len(set(first)) == AN_EPOCH and set(first) == set(second)
    assert first != second and [line["step"] for line in straight["lines"]] == [4, 6]
    for step in map(str, RESUMES):
        for rank in ranks:
            resumed = rank[step]
            for name in ("weights", "optimizer", "memory"):
                assert straight[name] == rank["straight"][name] == resumed[name], (step, name)
            assert resumed["anchors"] == {r: keys for r, keys in straight["anchors"].items() if r >= step}
        # The log at 4 covers four rounds: after the resume at 3, each process brings its own three losses back.
        logged = [line for line in straight["lines"] if line["step"] > int(step)]
        assert ranks[0][step]["lines"] == logged
