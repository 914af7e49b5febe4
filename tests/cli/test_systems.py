# Tests: cli/commands.py, proposers/tiers.py, cli/solve_rates.py, cli/dataset.py, evaluation/hard.py
"""Commands of systems: `rloo`, `pool`, `symbolic` and `sgs`, their recipes, what they start from, and hard targets."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from tests.installed import MISSING

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.cli import solve_rates
from countdown_selfplay.cli.main import main
from countdown_selfplay.config.recipes import recipe_fields, recipe_settings, recipes, spread
from countdown_selfplay.config.script import check_starts
from countdown_selfplay.countdown import CountdownDomain, generate_problems, heldout_key
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.evaluation.hard import hard_problems
from countdown_selfplay.proposers.symbolic.difficulty import read_labels
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC, load_tiny_model


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


def test_solve_rates_are_collected_where_a_predictor_reads_them(tmp_path, shown):
    out = tmp_path / "rates.jsonl"
    said = shown("solve-rates tiny --problems 12 --samples 2 --out", out)
    features, rates, attempts = read_labels(str(out), CountdownDomain.tiny())
    assert features.shape == (12, 21) and set(attempts) == {2} and set(rates) <= {0, 0.5, 1} and rates.sum() > 0
    assert f"mean solve rate {rates.mean():.3f}" in said
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert not any(heldout_key(",".join(map(str, sorted(row["numbers"]))) + f"={row['target']}") for row in rows)


def test_solve_rates_of_a_run_are_of_problems_that_it_did_not_play_and_sampled_as_in_training(tmp_path, monkeypatch):
    # a run that described itself, with the temperature of its training and another of its evaluation
    from countdown_selfplay.data.anchors import GENERATED_ANCHORS
    from countdown_selfplay.domains import domain_from

    run = tmp_path / "run"
    shutil.copytree(TINY_MODEL_PATH, run / "prover")
    args = JointSelfPlayConfig.from_recipe("tiny/rloo", output_dir=str(run), use_cpu=True)
    domain = domain_from(args)
    config = {**spread(args.to_dict()), "temperature": 0.7, "eval_preset": "joint_rloo"}
    (run / "run.json").write_text(json.dumps({"name": "run", "config": config, "rules": domain.rules.to_dict()}))
    seen = {}
    monkeypatch.setattr(solve_rates, "collect", lambda *given, **sampling: seen.update(given=given, **sampling) or 0.5)
    assert main(["solve-rates", str(run), "--problems", "40", "--seed", str(args.seed)]) == 0
    assert seen["temperature"] == 0.7 and seen["max_new_tokens"] == args.max_completion_length
    played = {domain.key(problem) for problem in domain.random(GENERATED_ANCHORS, args.seed, frozenset())}
    asked = [domain.key(problem) for problem in seen["given"][2]]
    assert len(set(asked)) == 40 and not played & set(asked)
    # of other numbers than the run's, none of which it generated either
    assert main(["solve-rates", str(run), "--problems", "40", "--number_high", "8"]) == 0
    asked = seen["given"][2]
    assert len(asked) == 40 and not played & set(map(domain.key, asked))
    assert max(max(problem.numbers) for problem in asked) <= 8 < domain.spec.number_high


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


def test_hard_problems_are_those_that_the_model_rarely_solves():
    model, tokenizer = load_tiny_model()
    sampling = dict(max_new_tokens=16, seed=1)
    found = hard_problems(model, tokenizer, CountdownDomain.tiny(), 8, **sampling)
    assert len(found.problems) == len({p.key for p in found.problems}) == 8 and max(found.correct) <= 2
    # the new attempts were not looked at when the problems were chosen: their counts are others, and may exceed 2
    assert len(found.fresh) == 8 and found.fresh != found.correct
    assert found.baseline == sum(count > 0 for count in found.fresh) / 8
    assert 8 < found.tried <= 32  # about a third of problems with three numbers is that hard
    with pytest.raises(DataError, match=r"Only 0 of 20 problems are solved at most -1 times in 8"):
        hard_problems(model, tokenizer, CountdownDomain.tiny(), 1, most=-1, **sampling)


HARD = ("--hard_for", "tiny", "--count", "6", "--operands", "3", "--number_high", "12", "--seed", "2")


def test_the_command_makes_a_set_that_a_model_finds_hard(tmp_path, shown):
    out, held = tmp_path / "targets.jsonl", tmp_path / "held.jsonl"
    held.write_text('{"nums": [1, 2, 3], "target": 6}\n')
    said = shown("dataset", out, *HARD, "--exclude", held)
    meta = json.loads((tmp_path / "targets.jsonl.meta").read_text())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    chosen = meta["hard_for"]
    assert len(rows) == 6 == chosen["targets"] and rows[0].keys() == {"nums", "target"}
    assert (chosen["prompt"], chosen["max_new_tokens"], meta["prover_prompt"]) == ("compact", 16, "compact")
    assert max(chosen["chosen_by"]) <= 2 and len(chosen["new_attempts"]) == 6 and chosen["candidates"] == 64
    rates = [sum(count > 0 for count in chosen[name]) / 6 for name in ("chosen_by", "new_attempts")]
    means = [sum(chosen[name]) / 48 for name in ("chosen_by", "new_attempts")]
    solved = chosen["candidates_solved"]
    assert 6 < solved < 64 and f"6 targets of 64 problems, {solved} of which were solved at least once" in said
    assert f"of the targets {rates[0]:.1%} in the 8 attempts that chose them" in said
    assert f"(mean solve rate {means[0]:.1%}), and {rates[1]:.1%} in as many new attempts ({means[1]:.1%})." in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held.jsonl", "targets.jsonl", "targets.jsonl.meta"]


def test_a_search_for_hard_problems_goes_on_where_it_was_ended(tmp_path, run, monkeypatch):
    from countdown_selfplay.evaluation import hard

    (tmp_path / "whole").mkdir()
    assert main(["dataset", str(tmp_path / "whole" / "targets.jsonl"), *HARD]) == 0
    evaluate, calls = hard.evaluate_prover, []

    def count(*given, **asked):
        calls.append(len(given[2]))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(*given, **asked)

    monkeypatch.setattr(hard, "evaluate_prover", count)
    out, file = tmp_path / "targets.jsonl", tmp_path / ".targets.jsonl.attempts"
    assert main(["dataset", str(out), *HARD]) == 130 and not out.exists()
    file.write_bytes(file.read_bytes() + b'{"key": "1,2')  # as a kill may leave it
    code, _, error = run("dataset --most 1", out, *HARD)
    assert code == 2 and "holds the attempts of another call (it differs in most)" in error
    assert main(["dataset", str(out), *HARD]) == 0
    assert calls == [64, 6, 6] and not file.exists()  # the 64 candidates were not attempted again
    for name in ("targets.jsonl", "targets.jsonl.meta"):
        assert (tmp_path / name).read_text() == (tmp_path / "whole" / name).read_text()
