# Tests: worlds/detachment/domain.py, tiny/__init__.py
"""`domain: detachment` in the trainer: two rounds of each system by settings alone, with the embedded models."""

import json

import pytest

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.worlds.detachment import DETACHMENT_PATHS, conclusion, is_tautology, read
from countdown_selfplay.worlds.detachment.domain import DetachmentDomain
from tests.trainer.conftest import equal, rounds, weights

MODELS = {role: str(path) for role, path in DETACHMENT_PATHS.items()}
QUICK = dict(
    max_steps=2, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, logging_steps=1,
    problems_per_round=8, proposals_per_round=32, per_device_train_batch_size=32, conjecturer_num_generations=32,
    domain_kwargs={"longest_proof": 9},
)  # fmt: skip
SYSTEMS = {
    "the game of seed 001": {},
    "a pool": {"roles": {"prover": {"players": 2}, "conjecturer": {"players": 2}}},
    "a bandit over rungs": {"proposer": "bandit_rungs", "conjecturer_players": 0, "anchor_fraction": 0.0},
}

SGS = dict(
    domain_kwargs={"shortest_proof": 9, "longest_proof": 9},
    proposer_kwargs={"batch": 4},
    conjecturer_num_generations=1,
)


def played(folder, recipe, **changes):
    args = JointSelfPlayConfig.from_recipe(recipe, output_dir=str(folder), **{**QUICK, **changes})
    models = MODELS if args.players_of("conjecturer") else MODELS["prover"]
    trainer = JointConjecturerProverTrainer(model=models, args=args)
    before = weights(trainer)
    trainer.train()
    assert not equal(weights(trainer), before)
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    return rounds(folder), samples


@pytest.mark.parametrize("system", SYSTEMS)
def test_two_rounds_of_a_system(system, tmp_path):
    lines, samples = played(tmp_path, "tiny/detachment", **SYSTEMS[system])
    assert [line["step"] for line in lines] == [1, 2]
    answers = [row for row in samples if row["role"].startswith("prover")]
    assert answers
    for row in answers:
        theorem, found = read(row["problem"]).problem, conclusion(row["completion"])
        assert is_tautology(theorem) and not DetachmentDomain().is_held_out(theorem)
        assert (row["reason"] == "correct") == (row["reward"] == 1) or found.conclusion is None


def test_two_rounds_of_self_guided_self_play_on_the_longest_proofs(tmp_path):
    lines, samples = played(tmp_path, "tiny/detachment_sgs", **SGS)
    targets = {str(problem) for problem in DetachmentDomain(shortest_proof=9, longest_proof=9).random(512, 0)}
    assert all(0 <= line["targets/solve_rate"] <= 1 for line in lines)
    asked = [row["prompt"] for row in samples if row["role"] == "conjecturer"]
    assert asked and {prompt.removesuffix("?") for prompt in asked} <= targets
