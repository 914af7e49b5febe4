# Tests: cli/commands.py, cli/solve_rates.py, proposers/symbolic/difficulty.py
"""`countdown-selfplay symbolic`: what it refuses before a model loads, and the solve rates that a predictor reads."""

import importlib
import json
import shutil

import numpy as np
import pytest

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.cli import solve_rates
from countdown_selfplay.cli.main import main
from countdown_selfplay.config.recipes import recipe_fields, spread
from countdown_selfplay.countdown import CountdownDomain, heldout_key
from countdown_selfplay.proposers.symbolic.difficulty import Rollout, read_labels
from countdown_selfplay.tiny import TINY_MODEL_PATH


def test_solve_rates_are_collected_where_a_predictor_reads_them(tmp_path, capsys):
    out = tmp_path / "rates.jsonl"
    assert main(["solve-rates", "tiny", "--problems", "12", "--samples", "2", "--out", str(out)]) == 0
    features, rates, attempts = read_labels(str(out), CountdownDomain.tiny())
    assert features.shape == (12, 21) and set(attempts) == {2} and set(rates) <= {0, 0.5, 1} and rates.sum() > 0
    assert f"mean solve rate {rates.mean():.3f}" in capsys.readouterr().out
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


def test_the_least_diversity_is_fitted_by_the_share_of_the_band_that_it_refuses():
    class Half(Rollout):
        def estimate(self, round, problems, features):
            return 0.5 + 0 * features[:, 0]  # all within the band

    fit = importlib.import_module("fit_least_diversity")
    kwargs = recipe_fields("tiny/symbolic_p_solver", {}, JointSelfPlayConfig)["proposer_kwargs"]
    kwargs |= {"difficulty": "rollout", "candidates": 40}
    shares = [fit.refused(threshold, kwargs, CountdownDomain.tiny(), Half(), 1) for threshold in (0.0, 0.01, 1.1)]
    admitted = [share[1] for share in shares]
    shares = [share[0] for share in shares]
    assert admitted == pytest.approx([1 - share for share in shares])  # all within the band: refused or admitted
    # R_div lies in [0, 1]
    assert shares[0] == 0 and 0 < shares[1] <= 0.9 and shares[2] == 1
    # the table: 27.8 of 27.8 + 44.7, and 1.7 of 1.7 + 68.2
    assert fit.REFUSED[7] == pytest.approx(0.3834, abs=1e-4) and fit.REFUSED[13] == pytest.approx(0.0243, abs=1e-4)
    # without a model: drawn in the shares of the table, which leave 72.5% and 69.9% within the band
    drawn = fit.Drawn(*fit.OUTSIDE[7]).estimate(fit.Alone(CountdownDomain.tiny(), 0, 0), range(4000), None)
    assert [np.mean(drawn == p) for p in (0, 0.4, 1)] == pytest.approx([0.071, 0.725, 0.204], abs=0.025)


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
