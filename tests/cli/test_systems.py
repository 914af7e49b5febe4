# Tests: cli/commands.py, proposers/tiers.py
"""Commands of systems: `rloo`, `pool`, `symbolic` and `sgs`, their recipes, and what they start from."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.installed import MISSING

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.cli.main import main
from countdown_selfplay.config.recipes import recipe_fields, recipe_settings, recipes
from countdown_selfplay.config.script import check_starts
from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC


def test_a_joint_recipe_gives_its_single_policy_baseline(tmp_path, shown):
    out = shown("rloo --recipe tiny/default --prover_objective rloo --dry_run --output_dir", tmp_path / "run")
    assert "prover: 16 problems x 16 = 256 answers" in out
    assert "problems per round: 16, at least 16 anchors, up to 0 proposals" in out


def test_pool_is_joint_with_tiers_and_plans_its_round(tmp_path, shown):
    line = "pool --recipe tiny/pool --model_name_or_path tiny --conjecturer_model tiny --dry_run --output_dir"
    told = shown(line, tmp_path)
    # tiny/pool: 32 proposals of each of two conjecturers, 64 problems x 4 answers of each of two provers
    assert "prover, each of 2: 64 problems x 4 = 256 answers" in told
    assert "conjecturer, each of 2: 1 prompt x 32 = 32 proposals" in told


ARMS = ("ucb", "p_solver", "refresh", "refresh_diversity")


def test_the_recipes_at_the_papers_size_have_the_solver_of_its_rloo():
    """Table 1: 128 prompts x 8, KL and entropy .001, 100 steps; the rest as the repository's own RLOO."""
    rloo = recipe_fields("qwen2.5-0.5b/rloo", {}, JointSelfPlayConfig)
    for arm in ("rloo", *ARMS, "ours"):
        own = recipe_fields(f"qwen2.5-0.5b/symbolic_{arm}", {}, JointSelfPlayConfig)
        differs = {name for name in rloo if rloo[name] != own.get(name)}
        sizes = {"num_generations", "problems_per_round"}
        assert differs == {"output_dir", *(sizes if arm == "ours" else ())}, arm
        assert own["problems_per_round"] * own["num_generations"] == 128 * 8
        assert (own["prover_beta"], own["entropy_coef"], own["max_steps"]) == (0.001, 0.001, 100)
        if arm != "rloo":
            assert own["anchor_fraction"] == 0.75 or arm == "ours"


SGS = sorted(name for name in recipes() if name.partition("/")[2].startswith("sgs"))


@pytest.mark.parametrize("name", SGS)
def test_a_recipe_holds_together_and_its_round_fits(name, tmp_path):
    """Every unsolved target of a round has a slot for itself and for its problem (256 and 32 problems a step)."""
    args = JointSelfPlayConfig.from_recipe(name, output_dir=str(tmp_path), use_cpu=True)
    batch = args.proposer_arguments["batch"]
    alone = not args.players_of("conjecturer")
    if name.startswith("tiny/sgs_32"):  # every role in the paper's steps, at one rate
        assert {(s.sequences_per_step, s.learning_rate) for s in args.all_roles.values() if s.trained} == {(32, 1e-4)}
    assert args.problems_per_round >= batch * (1 if alone else 2)
    assert alone or args.proposals_per_round >= batch
    assert (args.adam_beta1, args.adam_beta2, args.overlong) == (0.9, 0.95, "replace")
    own = {"low": 0.01, "high": 0.25} if args.proposer == "stp" else {"top_of": "between", "starved": "paper"}
    assert alone or args.reward_arguments == own


def test_the_recipes_at_the_papers_size_are_those_of_its_table_1():
    """Learning rate (the solver's; a frozen conjecturer's is 0), objective, problems per unsolved target, guide."""
    table = {
        "sgs": (3e-6, "reinforce_half", 1, "judge"), "sgs_reinforce_half": (3e-6, "reinforce_half", 0, "none"),
        "sgs_expert_iteration": (3e-6, "expert_iteration", 0, "none"), "sgs_cispo_alone": (1e-6, "cispo", 0, "none"),
        "sgs_no_guide": (3e-6, "reinforce_half", 1, "none"), "sgs_frozen": (3e-6, "reinforce_half", 1, "none"),
        "sgs_unconditioned": (3e-6, "reinforce_half", 1, "none"), "sgs_cispo": (1e-6, "cispo", 1, "judge"),
    }  # fmt: skip
    for name, expected in table.items():
        args = JointSelfPlayConfig.from_recipe(f"qwen2.5-0.5b/{name}", use_cpu=True)
        solver, asked = args.role("prover"), args.role("conjecturer")
        found = asked.num_generations if args.players_of("conjecturer") else 0
        assert (solver.learning_rate, solver.objective, found, args.guide) == expected, name
        assert asked.learning_rate == (0 if name == "sgs_frozen" else expected[0])
        assert solver.sequences_per_step == asked.sequences_per_step == 32  # appendix C.1


STUDY = {  # SHA-256 of the settings that the published study played, in words of today, as sorted JSON
    "sgs": "42038f66219beaea",
    "sgs_cispo": "e50967180218c551",
    "sgs_cispo_alone": "19d4cb99f4c1dc57",
    "sgs_expert_iteration": "c42db607bbd575f6",
    "sgs_frozen": "db752e8d4ab4ff4a",
    "sgs_judge": "2b052442071e82e9",
    "sgs_no_guide": "dc90f266ee135e2b",
    "sgs_parallel_sampling": "219d1fa613f57832",
    "sgs_reinforce_half": "8bf9dc5db2a2ddaf",
    "sgs_stp": "323a20b047d999e0",
    "sgs_unconditioned": "076af2b673aec362",
}


@pytest.mark.parametrize("name", STUDY)
def test_the_published_study_can_be_played_again(name):
    settings = json.dumps(recipe_settings(f"tiny/{name}"), sort_keys=True)
    assert hashlib.sha256(settings.encode()).hexdigest()[:16] == STUDY[name]


def test_the_command_plays_the_recipe_and_reports_on_its_targets(tmp_path):
    problems = generate_problems(16, TINY_SPEC, seed=3)
    rows = [{"nums": list(p.numbers), "target": p.target} for p in problems]
    (tmp_path / "targets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    small = ["--proposer_kwargs", '{"batch": 8}', "--problems_per_round", "16", "--steps_per_round", "2"]
    where = ["--dataset_name", str(tmp_path / "targets.jsonl"), "--output_dir", str(tmp_path / "run")]
    models = ["--model_name_or_path", str(TINY_MODEL_PATH), "--conjecturer_model", str(TINY_MODEL_PATH)]
    short = ["--max_steps", "2", "--report_to", "none", "--disable_tqdm", "true", "--use_cpu"]
    assert main(["sgs", "--recipe", "tiny/sgs", *models, *small, *where, *short]) == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if "targets/solve_rate" in line]
    assert len(logged) == 2 and logged[-1]["targets/solve_rate"] > 0  # three numbers: the embedded model solves some
    if "lab" not in MISSING:
        assert "Cumulative solve rate of the targets" in (tmp_path / "run" / "report.html").read_text()


def test_a_start_is_whole_weights_or_an_adapter_in_no_folder_whose_name_begins_alike(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    place = Path("runs/qwen-sgs/guide")
    place.mkdir(parents=True)
    with pytest.raises(ConfigError, match="'runs/qwen-sgs/guide', which this run starts from, is not there yet"):
        check_starts(str(place))
    for file in ("config.json", "adapter_config.json"):
        (place / file).touch()
        check_starts(str(place), None, "Qwen/Qwen2.5-0.5B-Instruct")
        (place / file).unlink()
    code, _, error = run("sgs --model_name_or_path runs/tiny-sgs-other/prover --recipe tiny/sgs --use_cpu")
    assert code == 2 and "'runs/tiny-sgs/" in error  # the conjecturer's and the targets, not the prover's
