# Tests: cli/joint.py, config/recipes.py, cli/recipes.py
"""Every shipped recipe is played for two rounds, with the evaluation before and after, on models and rows made here.

Of a recipe's values only these are replaced: where model, rows and results lie; how long the run is (max_steps 2, a
few evaluated problems and samples, fewer problems for the warm starts to prepare, no report); and for the
0.5B recipes the length of answers in training and evaluation, because 128 of 1,024 tokens take a CPU minutes.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from countdown_selfplay.cli.commands import TRAINERS
from countdown_selfplay.cli.main import main
from countdown_selfplay.cli.recipes import command_of, facts, paper_of, table
from countdown_selfplay.config.recipes import PLACES, recipes
from countdown_selfplay.countdown import CountdownDomain, generate_problems

from ..installed import playable
from .stand_in import DOMAIN, make_stand_in

ROOT = Path(__file__).resolve().parents[2]
# Those of other systems are tested in test_systems.py, test_cdg.py, test_eval_tasks.py, test_pool.py and below,
# those of a pretrained model in moves in test_smollm2_moves.py.
OTHERS = re.compile("sgs|cdg|symbolic|pool|self_correction|smollm2")
FILES = sorted((ROOT / "examples" / "recipes").glob("*/*.yaml"))
NAMES = [name for path in FILES if not OTHERS.search(name := f"{path.parent.name}/{path.stem}")]
COMMANDS = {"sft": "sft", "sft_conjecturer": "sft", "ipo": "ipo", "rloo": "rloo"}

LARGE = ("aggressive_binary", "anchored_shaped", "anchored_shaped_fixed", "rloo", "sft_conjecturer")
"""Of the 0.5B and 3B recipes those with 512 to 1,024 samples a round, or with a solver's demonstrations: slow."""

SYSTEMS = ("default", "ladder", "anchored_shaped", "detachment", "detachment_replay", "rloo", "sft", "ipo")
IN_LINE_2 = {*(f"tiny/{name}" for name in SYSTEMS), "qwen2.5-0.5b/conservative_binary"}
"""The others, which take their paths with other numbers, are played in a stage of their own."""

SHORT = {"max_steps": "2", "eval_problems": "8", "report_to": "none", "disable_tqdm": "true"}
SHORT_JOINT = {"num_generations_eval": "2", "eval_proposals": "64", "report": "false"}
SHORT_WARM = {"sft": {"demonstrations": "256", "eval_samples": "2"}, "ipo": {"problems": "64", "eval_samples": "2"}}


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """The 0.5B recipes' model, and both sides of their data with the columns of asingh15/countdown_tasks_3to4."""
    folder = tmp_path_factory.mktemp("public")
    make_stand_in(folder / "model")
    for split, seed in (("train", 1), ("heldout", 2)):
        rows = [
            {"nums": list(p.numbers), "target": p.target}
            for p in generate_problems(400 if split == "train" else 16, DOMAIN.spec, seed=seed, split=split)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [
        f"Using the numbers {list(p.numbers)}, create an equation that equals {p.target}."
        for p in generate_problems(16, DOMAIN.spec, seed=1)
    ]
    asked = [{"query": query, "completion": "<b>"} for query in queries]
    preferred = [{"prompt": row["query"], "chosen": row["completion"], "rejected": "?"} for row in asked]
    for name, found in (("sft", asked), ("ipo", preferred)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return {
        "model_name_or_path": str(folder / "model"), "dataset_name": str(folder / "train.jsonl"),
        "eval_dataset_name": str(folder / "heldout.jsonl"), "eval_preset": "training",
    }  # fmt: skip


def flags(*settings):
    return [word for one in settings for name, value in one.items() for word in (f"--{name}", value)]


def test_the_played_recipes_are_all_that_any_command_knows():
    known = {name for command in ("joint", "sft", "ipo") for name in recipes(command)}
    known = {name for name in known if not OTHERS.search(name)}
    assert set(NAMES) == known and len(known) == 21


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow)
    if name.partition("/")[2] in LARGE and name.startswith(("qwen2.5-0.5b/", "qwen2.5-3b/"))
    else pytest.param(name, marks=[pytest.mark.matrix] * (name not in IN_LINE_2))
    for name in NAMES
    if playable([name], COMMANDS.get(name.partition("/")[2], "joint"))
])  # fmt: skip
def test_a_shipped_recipe_is_played_with_evaluation_before_and_after(name, public, tmp_path, capsys):
    command = COMMANDS.get(name.partition("/")[2], "joint")
    changed = [{"recipe": name, "output_dir": str(tmp_path)}, SHORT, SHORT_WARM.get(command, SHORT_JOINT)]
    if not name.startswith("tiny/"):
        short = "prover_max_completion_length" if command not in SHORT_WARM else "max_completion_length"
        changed.append(public | {short: "8"})
        if command in SHORT_WARM:
            changed.append({"dataset_name": public["dataset_name"].replace("train.", f"{command}."), "max_steps": "2"})
    if name == "qwen2.5-0.5b/sft_conjecturer":
        own = {key: value for key, value in public.items() if key != "dataset_name"}  # the solver's demonstrations
        changed[-2:] = [own, {"eval_proposals": "64", "max_completion_length": "64"}]
    assert main([command, *flags(*changed)]) == 0
    result = json.loads((tmp_path / "evaluation.json").read_text())
    if name.endswith("sft_conjecturer"):
        assert [result[when]["conjecturer"]["n"] for when in ("before", "after")] == [64, 64]
        return
    assert [len(result[when]["prover"]["correct"]) for when in ("before", "after")] == [8, 8]
    steps = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert max(line["step"] for line in steps) == 2
    out, folder = capsys.readouterr().out, {path.name for path in tmp_path.iterdir()}
    assert "prover pass@1" in out
    if command == "rloo":  # the prover is trained alone
        assert "conjecturer" not in out and "prover" in folder and "conjecturer" not in folder
        assert "prover/loss" in steps[0] and not any(key.startswith("conjecturer/") for line in steps for key in line)
    if command == "joint" and name != "tiny/detachment_replay":  # which has no conjecturer
        proposed = [result[when]["conjecturer"] for when in ("before", "after")]
        # by construction nearly every proposal of either model has the right form, and about a fifth is solvable
        assert all(one["n"] == 64 and one["parseable"]["value"] > 0.5 for one in proposed)
        assert all("solve_rate" in one for one in proposed)
        lines = [line for line in steps if "loss" in line]
        assert [line["step"] for line in lines] == [1, 2]
        assert lines[0]["conjecturer/parseable_rate"] > 0.5
        assert {"prover", "conjecturer"} <= folder


@pytest.mark.parametrize("sharing", ["lora", "tied"])
def test_the_other_policies_are_played_with_stop_strings_too(sharing, public, tmp_path):
    """The recipes above are all `full`. Under lora both roles have one temperature, under tied one learning rate."""
    same = {"temperature": "0.7", "learning_rate": "1e-5", "policy_sharing": sharing, "max_steps": "1"}
    changed = ({"recipe": "qwen2.5-0.5b/anchored_shaped", "output_dir": str(tmp_path)}, SHORT, SHORT_JOINT)
    short = {"prover_max_completion_length": "8", "guard_scope": "run"}
    assert main(["joint", *flags(*changed, public, short, same)]) == 0
    assert set(json.loads((tmp_path / "evaluation.json").read_text())) >= {"before", "after", "difference"}


def test_a_stop_string_that_the_tokenizer_cannot_write_is_refused_before_a_model_loads(tmp_path, run, refused):
    error = refused("joint --conjecturer_prompt completion --report_to none --output_dir", tmp_path)
    assert "generation cannot look for with this tokenizer of whole words" in error
    code, _, error = run("eval --model tiny --role conjecturer --conjecturer_prompt completion")
    assert code == 2 and "conjecturer_prompt=compact for the embedded model" in error


SYMBOLIC = sorted(name for name in recipes() if "symbolic" in name and "rloo" not in name)
LIKE_ANOTHER = re.compile("_(p_solver|refresh|refresh_diversity)$|0.5b/symbolic_(ours|ucb)$")
"""They take the paths of others with other numbers."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.matrix] * bool(LIKE_ANOTHER.search(n))) for n in SYMBOLIC]
)
def test_a_symbolic_proposer_selects_and_its_problems_are_played(name, public, tmp_path):
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
    changed = {"recipe": name, "output_dir": str(tmp_path)}
    assert main(["symbolic", *flags(changed, SHORT, SHORT_JOINT, more)]) == 0
    result = json.loads((tmp_path / "evaluation.json").read_text())
    assert [len(result[when]["prover"]["correct"]) for when in ("before", "after")] == [8, 8]
    steps = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    first = next(line for line in steps if "loss" in line)
    assert first["proposer/selected"] > 0 and first["round/conjectured_slots"] > 0


ALL = {name: path for command in ("sft", "ipo", "cdg", "joint") for name, path in recipes(command).items()}


def test_the_table_holds_every_recipe_once_and_one_is_printed_as_it_ships(shown, refused):
    out = shown("recipes")
    lines = out.splitlines()
    tiny_first = sorted(ALL, key=lambda name: (not name.startswith("tiny/"), name))
    assert [line.split("  ")[0].strip() for line in lines[2:]] == tiny_first
    assert out == table() + "\n" and lines[0].split() == ["recipe", "command", "paper", "CPU", "min", "GiB"]
    place = next(place for place in PLACES if place.is_dir())
    assert len(list(place.glob("*/*.yaml"))) == len(ALL)
    assert shown("recipes tiny/sgs") == ALL["tiny/sgs"].read_text(encoding="utf-8")
    said = "Unknown recipe 'tiny/sgz'. Did you mean 'tiny/sgs'? `countdown-selfplay recipes` lists them."
    assert said in refused("recipes tiny/sgz")


@pytest.mark.parametrize(("name", "command", "paper"), [
    ("tiny/default", "joint", ""),
    ("tiny/cdg", "cdg --training online", "Wang et al."),
    ("tiny/symbolic_ucb", "symbolic", "Task Difficulty and Diversity"),
    ("qwen2.5-0.5b/rloo", "rloo", "Allen and Ståblein"),
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
