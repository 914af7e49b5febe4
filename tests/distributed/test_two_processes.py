# Tests: distributed/processes.py, proposers/symbolic/refresh.py, training/rollbacks.py, distributed/launch.py
"""Two real processes over gloo: state that few runs have, launches, adapters, epochs and resumes."""

import json
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.config.recipes import recipe_fields
from countdown_selfplay.data.run_files import BASE
from countdown_selfplay.errors import CheckpointError
from countdown_selfplay.policies.build import load_pretrained
from countdown_selfplay.tiny import load_tiny_model
from tests.trainer.conftest import make_trainer, rounds
from tests.trainer.test_guard import ALONE

from . import two_processes
from .two_processes import ranks_of, started, torchrun

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
    job = dict(worker="worker", output=str(output), resume=resume, config=config, signal=signal, noise=noise)
    return torchrun(two_processes.__file__, json.dumps(job), options, **(environment or {}))


def run(output, resume=None, **config):
    process = launch(output, resume, **config)
    assert process.returncode == 0, process.stderr[-3000:]
    return equal_ranks(output)


def equal_ranks(output):
    ranks = [json.loads((output / f"rank{r}.json").read_text()) for r in (0, 1)]
    for rank in ranks:  # or a silent fallback to one process would pass
        assert rank["processes"] == 2 and rank["distributed_type"].endswith("MULTI_CPU")
        assert rank["wrapped"] == "DistributedDataParallel"
    same_state(*ranks)
    return ranks[0]


def same_state(one, other):
    for name in STATE:
        assert one[name] == other[name], name


def test_what_two_processes_exchange(tmp_path):
    """By hand: the lists in rank order, 0.1 + 0.1 and 1 + 10, and what process 0 returned or raised on both."""
    for rank, found in enumerate(ranks_of("ddp", "workers:exchange", tmp_path)):
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
    same_state(straight, resumed)
    # 2 x 32 answers a round: what is kept is what the verifier accepted in the last three rounds, on both ranks
    correct = [round(64 * line["prover/correct_rate"]) for line in rounds(folder)]
    assert len(straight["memory"]["replays"]["prover"]["answer_rows"]) == sum(correct[-3:])


def test_a_resume_in_another_number_of_processes_is_refused(straight, tmp_path):
    one = make_trainer(tmp_path / "one", **OBJECTIVES, **SAVING)
    with pytest.raises(CheckpointError, match="written by 2 processes and this run has 1"):
        one.train(resume_from_checkpoint=str(straight[0] / "checkpoint-2"))


# Of the recipe only these are replaced: short rounds and refreshes, and a predictor that learns at once.
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
    same_state(straight, resumed)


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
    same_state(straight, resumed)


PROGRAM = str(Path(__file__).parents[2] / "examples" / "joint_rloo.py")


def test_one_process_in_the_place_of_two_is_refused_before_anything_is_written(tmp_path):
    launch = ["-m", "accelerate.commands.accelerate_cli", "launch", "--num_processes", "2", "--cpu"]
    done = started([*launch, PROGRAM, "--output_dir", str(tmp_path / "run"), "--max_steps", "1"])
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if "joint_rloo.py: error: " in line]
    assert len(said) == 1 and "was asked for 2 processes and has started one" in said[0]
    assert f"ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes 2 {PROGRAM}" in said[0]
    assert not (tmp_path / "run").exists()


def test_two_processes_share_the_evaluation_of_an_odd_number_of_problems(tmp_path):
    """33 problems do not divide by 2, and batches of 8 answers do not divide the shares: 5 against 4 without care, and
    both would hang until the time limit of collectives, ten minutes."""
    command = ["-m", "countdown_selfplay.cli.main", "joint", "--num_processes", "2"]
    command += ["--output_dir", str(tmp_path), "--max_steps", "2", "--eval_problems", "33", "--eval_proposals", "31"]
    command += ["--num_generations_eval", "4", "--per_device_eval_batch_size", "8", "--ddp_timeout", "600"]
    command += ["--eval_strategy", "steps", "--eval_steps", "1"]
    command += ["--report", "false", "--save_strategy", "no", "--guard", "false"]
    process = started(command)
    assert process.returncode == 0, process.stderr[-3000:]
    assert json.loads((tmp_path / "run.json").read_text())["environment"]["processes"] == 2
    result = json.loads((tmp_path / "evaluation.json").read_text())
    for when in ("before", "after"):
        prover, conjecturer = result[when]["prover"], result[when]["conjecturer"]
        assert len(prover["correct"]) == 33 == len(set(prover["keys"])) and max(prover["correct"]) <= 4
        assert sum(prover["reasons"].values()) == 33 * 4 and sum(conjecturer["reasons"].values()) == 31
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    evaluations = [line for line in lines if "eval_pass@1" in line]
    assert [line["eval_problems"] for line in evaluations] == [33, 33]
    assert process.stdout.count("Evaluating before training") == 1  # by one process
    assert f"2 processes on cpu: {tmp_path}" in process.stdout.splitlines()


@pytest.mark.parametrize("engine", ["zero3", "fsdp2"])
def test_an_adapter_is_merged_trained_and_exported_whole(engine, tmp_path):
    model, tokenizer = load_tiny_model()
    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for parameter in (p for p in model.parameters() if p.requires_grad):
            parameter += 0.05
    start = tmp_path / "start"
    model.save_pretrained(start)
    tokenizer.save_pretrained(start)
    found, _ = ranks_of(engine, "workers:adapters", tmp_path, start=str(start), sharings=["full", "lora"])
    told = [["prover", "", True], ["conjecturer", "", True]]
    assert found == {"full": told, "lora": told}
    begun = load_pretrained(str(start), {"dtype": "float32"}).state_dict()
    base = load_pretrained(str(tmp_path / "lora" / BASE), {"dtype": "float32"}).state_dict()
    assert all(torch.allclose(base[key], value, atol=1e-5) for key, value in begun.items())
    for sharing in ("full", "lora"):  # a step of Adam at 1e-3 lies near the start, and the bare base does not
        found = load_pretrained(str(tmp_path / sharing / "prover"), {"dtype": "float32"}).state_dict()
        gaps = [(found[key] - value).abs().max().item() for key, value in begun.items()]
        assert 1e-5 < max(gaps) < 1e-2


# Two processes draw 2 x 8 anchors a round: 48 are three rounds an epoch. 3 is the edge, 4 inside the second epoch.
AN_EPOCH, RESUMES = 48, (3, 4)
EPOCHS = dict(
    max_steps=6, save_strategy="steps", save_steps=1, logging_steps=4, beta=0.05, novelty_window=3, guard=True,
    prover_objective="expert_iteration", use_adaptive_entropy=True, entropy_target=0.6, entropy_coef=0.01,
)  # fmt: skip


@pytest.fixture(scope="module")
def epochs_ranks(tmp_path_factory):
    job = dict(problems_an_epoch=AN_EPOCH, resumes=RESUMES, config=EPOCHS)
    return ranks_of("ddp", "workers:epochs", tmp_path_factory.mktemp("epochs"), **job)


def test_a_resume_in_the_second_epoch_equals_the_straight_run_on_both_ranks(epochs_ranks):
    straight = epochs_ranks[0]["straight"]
    first, second = ([key for r in rounds for key in straight["anchors"][r]] for rounds in ("012", "345"))
    assert straight["processes"] == 2 and len(set(first)) == AN_EPOCH and set(first) == set(second)
    assert first != second and [line["step"] for line in straight["lines"]] == [4, 6]
    for step in map(str, RESUMES):
        for rank in epochs_ranks:
            resumed = rank[step]
            for name in ("weights", "optimizer", "memory"):
                assert straight[name] == rank["straight"][name] == resumed[name], (step, name)
            assert resumed["anchors"] == {r: keys for r, keys in straight["anchors"].items() if r >= step}
        # The log at 4 covers four rounds: after the resume at 3, each process brings its own three losses back.
        logged = [line for line in straight["lines"] if line["step"] > int(step)]
        assert epochs_ranks[0][step]["lines"] == logged
