# Tests: cli/joint.py, config/recipes.py
"""The recipes of pools and of symbolic proposers play two rounds each, with evaluation before and after."""

import json

import pytest
import yaml
from tests.cli.test_recipes_played import ROOT, SHORT, SHORT_JOINT, flags, public  # noqa: F401  (a fixture)

from countdown_selfplay.cli.main import main
from countdown_selfplay.config.recipes import recipes
from countdown_selfplay.countdown import CountdownDomain

NAMES = sorted(name for name in recipes() if ("symbolic" in name or "pool" in name) and "rloo" not in name)
LIKE_ANOTHER = {
    "qwen2.5-0.5b/pool",
    *(f"tiny/symbolic_{name}" for name in ("p_solver", "refresh", "refresh_diversity")),
}
LIKE_ANOTHER |= {
    f"qwen2.5-0.5b/symbolic_{name}" for name in ("p_solver", "refresh", "refresh_diversity", "ours", "ucb")
}
"""They take the paths of others with other numbers."""


def some(word):
    """The recipes with `word` in their names, those like another in a stage of their own."""
    return [pytest.param(n, marks=[pytest.mark.matrix] * (n in LIKE_ANOTHER)) for n in NAMES if word in n]


def play(command, name, folder, *more):
    changed = [{"recipe": name, "output_dir": str(folder)}, SHORT, SHORT_JOINT, *more]
    assert main([command, *flags(*changed)]) == 0
    result = json.loads((folder / "evaluation.json").read_text())
    assert [len(result[when]["prover"]["correct"]) for when in ("before", "after")] == [8, 8]
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in steps if "loss" in line]


def test_these_are_the_recipes():
    assert len(NAMES) == 12


@pytest.mark.parametrize("name", some("pool"))
def test_a_pool_has_four_players_and_its_tiers_stay_within_their_bounds(name, public, tmp_path):  # noqa: F811
    more = {"model_name_or_path": "tiny", "conjecturer_model": "tiny"}
    if not name.startswith("tiny/"):  # its conjecturer is another model, which writes up to 512 tokens
        more = public | {
            "conjecturer_model": public["model_name_or_path"],
            "conjecturer_max_completion_length": "8",
            "prover_max_completion_length": "8",
        }
    lines = play("pool", name, tmp_path, more)
    assert {"prover_0", "prover_1", "conjecturer_0", "conjecturer_1"} <= {path.name for path in tmp_path.iterdir()}
    assert [2 <= line["tier_1_operand_count"] <= 4 for line in lines] == [True, True]


@pytest.mark.parametrize("name", some("symbolic"))
def test_a_symbolic_proposer_selects_and_its_problems_are_played(name, public, tmp_path):  # noqa: F811
    small = {"prover_max_completion_length": "8", "problems_per_round": "16"}  # of 128
    more = {} if name.startswith("tiny/") else public | small
    settings = yaml.safe_load((ROOT / "examples" / "recipes" / f"{name}.yaml").read_text())
    if "labels" in settings["proposer_kwargs"].get("difficulty_kwargs", {}):
        labels = tmp_path / "solve_rates.jsonl"
        rows = [{"numbers": list(p.numbers), "target": p.target} for p in CountdownDomain.tiny().random(60, 0)]
        lines = [json.dumps(row | {"correct": i % 9, "attempts": 8}) for i, row in enumerate(rows)]
        labels.write_text("\n".join(lines))
        own = settings["proposer_kwargs"] | {"difficulty_kwargs": {"labels": str(labels)}}
        more["proposer_kwargs"] = json.dumps(own)
    first, _ = play("symbolic", name, tmp_path, more)
    assert first["proposer/selected"] > 0 and first["round/conjectured_slots"] > 0
