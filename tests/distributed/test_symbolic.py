# Tests: proposers/symbolic/refresh.py
"""The recipe tiny/symbolic_ours on two real processes: archive, buffer, predictor and bandit are the same on both, and
a resume is exact."""

import pytest

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.config.recipes import recipe_fields

from .test_two_processes import STATE, run

pytestmark = pytest.mark.distributed

# Of the recipe only these values are replaced: short rounds and refreshes, and a predictor that learns at once.
SHORT = dict(
    max_steps=4, save_strategy="steps", save_steps=3, per_device_train_batch_size=16, report_to="none",
    conjecturer_num_generations=None, gradient_checkpointing=False,
)  # fmt: skip
FEW = dict(candidates=64, refresh=2, keep=12)


def test_two_processes_decide_alike_and_a_resume_is_exact(tmp_path):
    given = recipe_fields("tiny/symbolic_ours", {}, JointSelfPlayConfig)
    given.pop("output_dir", None)
    learner = {**(given["proposer_kwargs"].get("difficulty_kwargs") or {}), "least": 10, "trees": 10}
    config = {**given, **SHORT, "proposer_kwargs": {**given["proposer_kwargs"], **FEW, "difficulty_kwargs": learner}}
    straight = run(tmp_path / "straight", **config)  # of which it asserts that both processes hold the same
    proposer = straight["memory"]["game"]["proposer"]
    # Refreshes in rounds 0 and 2. 2 x 64 answers of 16 to a problem are 8 problems a round, of which some are played
    # again in the next: at most 16 are labels at the second refresh, and as many wait for the third.
    assert proposer["counts"]["refreshes"] == 2
    assert 8 < len(proposer["difficulty"]["rates"]) <= 16 and 8 < len(proposer["played"]) <= 16
    assert len(proposer["difficulty"]["trees"]) == 1 and 12 < len(proposer["archive"]["keys"]) <= 24
    resumed = run(tmp_path / "resumed", str(tmp_path / "straight" / "checkpoint-3"), **config)
    for name in STATE:
        assert straight[name] == resumed[name], name
