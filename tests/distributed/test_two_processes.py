# Tests: distributed/processes.py, proposers/symbolic/refresh.py, training/rollbacks.py
"""Two real DDP processes over gloo: state that few runs have (kept samples, moving baselines) and resumes. What holds
for every engine and every way of sharing weights is in test_engines.py."""

import json

import pytest
import torch
from safetensors.torch import load_file

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.config.recipes import recipe_fields
from tests.distributed import two_processes
from tests.distributed.two_processes import ranks_of, torchrun
from tests.trainer.conftest import rounds
from tests.trainer.test_guard import ALONE

pytestmark = pytest.mark.distributed

SAVING = dict(save_strategy="steps", save_steps=2, max_steps=4, guard=True, novelty_window=3, beta=0.05)
STATE = ("weights", "optimizer", "remembered", "guard", "memory")
OBJECTIVES = dict(
    prover_objective="expert_iteration", conjecturer_objective="rae", conjecturer_reward="adaptive_band",
    use_adaptive_entropy=True, entropy_target=0.6, entropy_coef=0.01,
)  # fmt: skip


def launch(output, resume=None, signal=None, options=(), environment=None, noise=None, **config):
    """A run of two processes under torchrun; `signal`, `noise`: see worker.py."""
    output.mkdir(parents=True, exist_ok=True)
    job = {"resume": resume, "config": config, "signal": signal, "noise": noise}
    job = json.dumps({"worker": "worker", "output": str(output), **job})
    return torchrun(two_processes.__file__, job, options, **(environment or {}))


def run(output, resume=None, **config):
    process = launch(output, resume, **config)
    assert process.returncode == 0, process.stderr[-3000:]
    return equal_ranks(output)


def equal_ranks(output):
    ranks = [json.loads((output / f"rank{r}.json").read_text()) for r in (0, 1)]
    for rank in ranks:  # or a silent fallback to one process would pass
        assert rank["processes"] == 2 and rank["distributed_type"].endswith("MULTI_CPU")
        assert rank["wrapped"] == "DistributedDataParallel"
    for name in STATE:
        assert ranks[0][name] == ranks[1][name], name
    return ranks[0]


def test_what_two_processes_exchange(tmp_path):
    """By hand: the lists in rank order, 0.1 + 0.1 and 1 + 10, and what process 0 returned or raised on both."""
    for rank, found in enumerate(ranks_of("ddp", "processes_worker", tmp_path)):
        assert found == {
            "gather": [0, 1, 1],
            "total": [0.2, 11.0],
            "together": 0,
            "main": rank == 0,
            "error": "from process 0",
            "ran": [0] if rank == 0 else [],
            "left": True,
        }


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two") / "straight"
    return folder, run(folder, **OBJECTIVES, **SAVING)


def test_kept_samples_and_moving_baselines_are_the_same_on_both_ranks_and_after_a_resume(straight, tmp_path):
    folder, straight = straight
    assert straight["memory"]["replays"]["prover"] and straight["memory"]["objectives"]["conjecturer"]["baseline"]
    resumed = run(tmp_path / "resumed", str(folder / "checkpoint-2"), **OBJECTIVES, **SAVING)
    for name in STATE:
        assert straight[name] == resumed[name], name
    # 2 x 32 answers a round: what is kept is what the verifier accepted in the last three rounds, on both ranks
    correct = [round(64 * line["prover/correct_rate"]) for line in rounds(folder)]
    assert len(straight["memory"]["replays"]["prover"]["answer_rows"]) == sum(correct[-3:])


def test_a_resume_in_another_number_of_processes_is_refused(straight, tmp_path):
    from countdown_selfplay.errors import CheckpointError
    from tests.trainer.conftest import make_trainer

    one = make_trainer(tmp_path / "one", **OBJECTIVES, **SAVING)
    with pytest.raises(CheckpointError, match="written by 2 processes and this run has 1"):
        one.train(resume_from_checkpoint=str(straight[0] / "checkpoint-2"))


# The recipe tiny/symbolic_ours on two real processes: archive, buffer, predictor and bandit are the same on both,
# and a resume is exact.


# Of the recipe only these values are replaced: short rounds and refreshes, and a predictor that learns at once.
SHORT = dict(
    max_steps=4, save_strategy="steps", save_steps=3, problems_per_round=8, report_to="none",
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
    assert proposer["difficulty"]["trees"].startswith("tree\n") and 12 < len(proposer["archive"]["keys"]) <= 24
    resumed = run(tmp_path / "resumed", str(tmp_path / "straight" / "checkpoint-3"), **config)
    for name in STATE:
        assert straight[name] == resumed[name], name


def weights(folder, step, policy):
    return load_file(folder / f"checkpoint-{step}" / policy / "model.safetensors")


def test_a_rollback_of_the_conjecturer_alone_is_equal_on_both_ranks_and_a_resume_is_exact(tmp_path):
    """In round 5 each process has a conjecturer of other noise: only one that went back on both is equal again. Its
    proposals were sampled from checkpoint-4, so that the one before is taken."""
    settings = {**ALONE, "save_steps": 1}
    straight = run(tmp_path / "straight", noise=4, **settings)
    assert straight["memory"]["conjecturer_guard"] == {"rollbacks": 1, "healthy": True}
    assert [line["conjecturer/rolled_back"] for line in rounds(tmp_path / "straight")] == [0, 0, 0, 0, 1, 0, 0]
    for policy, back in (("conjecturer", True), ("prover", False)):
        then, now = (weights(tmp_path / "straight", step, policy) for step in (3, 5))
        assert all(torch.equal(then[name], now[name]) for name in then) == back, policy
    resumed = run(tmp_path / "resumed", str(tmp_path / "straight" / "checkpoint-5"), **settings)
    for name in STATE:
        assert straight[name] == resumed[name], name
