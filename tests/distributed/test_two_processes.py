# Tests: distributed/processes.py
"""Two real DDP processes over gloo: state that few runs have (kept samples, moving baselines) and resumes. What holds
for every engine and every way of sharing weights is in test_engines.py."""

import json

import pytest

from tests.distributed import two_processes
from tests.distributed.two_processes import ranks_of, torchrun
from tests.trainer.conftest import rounds

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
            "largest": [1.0, 0.0],
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
    assert len(straight["memory"]["replays"]["prover"]) == sum(correct[-3:])


def test_a_resume_in_another_number_of_processes_is_refused(straight, tmp_path):
    from countdown_selfplay.errors import CheckpointError
    from tests.trainer.conftest import make_trainer

    one = make_trainer(tmp_path / "one", **OBJECTIVES, **SAVING)
    with pytest.raises(CheckpointError, match="written by 2 processes and this run has 1"):
        one.train(resume_from_checkpoint=str(straight[0] / "checkpoint-2"))
