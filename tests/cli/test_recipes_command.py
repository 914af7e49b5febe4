# Tests: cli/recipes.py
"""`countdown-selfplay recipes`: one table of all recipes, and the text of one."""

import json
from pathlib import Path

import pytest

from countdown_selfplay.cli.commands import TRAINERS
from countdown_selfplay.cli.main import main
from countdown_selfplay.cli.recipes import command_of, facts, paper_of, table
from countdown_selfplay.config.recipes import PLACES, recipes

ROOT = Path(__file__).parents[2]
ALL = {name: path for command in ("sft", "ipo", "cdg", "joint") for name, path in recipes(command).items()}


def test_the_table_holds_every_recipe_once_and_one_is_printed_as_it_ships(capsys):
    assert main(["recipes"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[2:]] == sorted(
        ALL, key=lambda n: (not n.startswith("tiny/"), n)
    )
    assert out == table() + "\n" and lines[0].split() == ["recipe", "command", "paper", "CPU", "min", "GiB"]
    place = next(place for place in PLACES if place.is_dir())
    assert len(list(place.glob("*/*.yaml"))) == len(ALL)
    assert main(["recipes", "tiny/sgs"]) == 0
    assert capsys.readouterr().out == ALL["tiny/sgs"].read_text(encoding="utf-8")
    assert main(["recipes", "tiny/sgz"]) == 2
    said = "Unknown recipe 'tiny/sgz'. Did you mean 'tiny/sgs'? `countdown-selfplay recipes` lists them."
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("name", "command", "paper"), [
    ("tiny/default", "joint", ""),
    ("tiny/sgs_stp", "sgs", "SGS"),
    ("tiny/pool", "pool", "Multimodal LLM Self-Play"),
    ("tiny/cdg", "cdg --training online", "Wang et al."),
    ("tiny/iterated_cdg", "cdg", "Wang et al."),
    ("tiny/symbolic_ours", "symbolic", ""),
    ("tiny/symbolic_ucb", "symbolic", "Task Difficulty and Diversity"),
    ("tiny/rloo", "rloo", ""),
    ("qwen2.5-0.5b/rloo", "rloo", "Allen and Ståblein"),
    ("tiny/sft", "sft", ""),
])  # fmt: skip
def test_who_plays_a_recipe_and_whose_it_is(name, command, paper):
    own = next(one for one in ("sft", "ipo", "cdg", "joint") if name in recipes(one))
    assert (command_of(own, name), paper_of(name)) == (command, paper)


def test_facts_are_of_recipes_that_there_are_and_minutes_those_that_were_measured():
    assert set(facts()["recipes"]) <= set(ALL)
    assert all(set(found) <= {"minutes", "gib"} for found in facts()["recipes"].values())
    # docs/benchmarks/first_runs.json has CPU seconds by command; --prepare is not the recipe's run.
    runs = json.loads((ROOT / "docs" / "benchmarks" / "first_runs.json").read_text())["systems"].values()
    seconds = {run["command"]: run["cpu_seconds"] for own in runs for run in own}
    measured = {TRAINERS[name].recipe: seconds[name] for name in ("joint", "pool", "cdg", "sgs", "symbolic")}
    measured["tiny/ladder"] = seconds["joint --recipe tiny/ladder"]
    lines = {line.split()[0]: line.split()[-2] for line in table().splitlines()[2:]}
    assert {name: facts()["recipes"][name]["minutes"] for name in measured} == {
        name: pytest.approx(value / 60, abs=0.05) for name, value in measured.items()
    }
    assert lines["tiny/default"] == "2.6"


def test_what_one_gpu_does_not_hold_is_marked():
    rows = {line.split()[0]: line.split()[-2:] for line in table().splitlines()[2:]}
    assert rows["qwen2.5-7b/anchored_shaped_fixed"] == ["251", "!"] and "!" not in rows["qwen2.5-0.5b/sgs"]
