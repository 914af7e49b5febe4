# Tests: cli/options.py, cli/sources.py, config/recipes.py
"""Command line over YAML over recipe; within one source a role's own field over the plain one."""

import dataclasses
import json
from pathlib import Path

import pytest
from tests.installed import here, playable

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.cli.joint import parse
from countdown_selfplay.cli.main import main
from countdown_selfplay.config import recipes as recipe_module
from countdown_selfplay.config.recipes import recipe_settings, recipes
from countdown_selfplay.config.roles import FIELDS

KNOWN = {f.name for f in dataclasses.fields(JointSelfPlayConfig)}
PLAIN = sorted(FIELDS.keys() & KNOWN)
VALUES = {  # field -> (what the recipe says, what the flag says); each pair is allowed in a round of 16 x (8 + 1)
    "num_generations": (8, 4),
    "learning_rate": (1e-5, 1e-3),
    "warmup_steps": (3.0, 7.0),
    "max_grad_norm": (1.0, 0.25),
    "beta": (0.02, 0.5),
    "kl_estimator": ("k3", "k1"),
    "kl_reduction": ("sum", "mean"),
    "entropy_coef": (0.01, 0.03),
    "entropy_target": (0.3, 0.6),
    "temperature": (0.7, 0.9),
    "top_p": (1.0, 0.95),
    "top_k": (0, 5),
    "max_completion_length": (64, 32),
    "sequences_per_step": (16, 8),
    "vllm_server_base_url": ("http://one:8000", "http://two:8000"),
}


def solve_rates_of_a_run():
    """What recipes of symbolic proposers with a predictor begin with, in the current folder."""
    row = {"numbers": [3, 5, 7], "target": 22, "correct": 1, "attempts": 8}
    for name in ("tiny-rloo", "qwen2.5-0.5b-symbolic-rloo"):
        folder = Path("runs", name)
        folder.mkdir(parents=True)
        (folder / "solve_rates.jsonl").write_text(json.dumps(row) + "\n")


def settings(*argv):
    return parse([*argv, "--report_to", "none"])[1]


def write(path, **values):
    path.write_text("".join(f"{name}: {value}\n" for name, value in values.items()))
    return str(path)


def of_roles(name, value):
    roles = ("prover", "conjecturer")
    if f"prover_{name}" in KNOWN:
        return {f"{role}_{name}": value for role in roles}
    return {"roles": json.dumps({role: {name: value} for role in roles})}


def found(args, name):
    return [getattr(args.role(role), name) for role in ("prover", "conjecturer")]


def test_every_plain_field_of_a_role_field_is_tried_below():
    assert sorted(VALUES) == PLAIN


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_flag_acts_although_the_file_sets_the_roles_own_fields(name, tmp_path):
    low, high = VALUES[name]
    base = {"per_device_train_batch_size": 16, "use_adaptive_entropy": "true", "generation_backend": "vllm_server"}
    base |= {"beta": 0.02} if name.startswith("kl_") else {}
    file = write(tmp_path / "a.yaml", **base, **of_roles(name, low))
    assert found(settings("--config", file), name) == [low, low]
    assert found(settings("--config", file, f"--{name}", str(high)), name) == [high, high]
    dashed = f"--{name.replace('_', '-')}={high}"
    assert found(settings("--config", file, dashed), name) == [high, high]


def test_a_model_of_ones_own_is_not_given_the_tiny_models_recipe_and_rloo_reads_the_same_way(tmp_path, capsys):
    for flag in ("--model_name_or_path", "--model-name-or-path"):
        script, args, _ = parse([flag, "some/model"])
        assert script.recipe is None and args.countdown.prover_prompt == "countdown_3to4"
    assert main(["rloo", "--learning_rate", "3e-3", "--dry_run", "--output_dir", str(tmp_path)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("learning_rate ")][-1:]
    assert line.split()[1] == "0.003"  # in the table of the prover's resolved settings


@pytest.mark.parametrize("name", sorted(playable(recipes())))
def test_a_recipe_in_python_is_the_one_of_the_command(name, tmp_path, monkeypatch):
    """Every field but those that are drawn anew, a folder in which a time stands and what torch has set up, and the
    model's options, which are those of ModelConfig."""
    monkeypatch.chdir(tmp_path)
    solve_rates_of_a_run()
    same = dict(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    own = JointSelfPlayConfig.from_recipe(name, **same)
    theirs = settings("--recipe", name, "--output_dir", str(tmp_path), "--use_cpu")
    drawn = {"logging_dir": None, "model_init_kwargs": None}
    assert own.to_dict() | drawn == theirs.to_dict() | drawn


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Recipes of our own: mine/<name>."""

    def put(**texts):
        for name, text in texts.items():
            (tmp_path / "mine").mkdir(exist_ok=True)
            (tmp_path / "mine" / f"{name}.yaml").write_text(text)

    monkeypatch.setattr(recipe_module, "PLACES", (tmp_path,))
    return put


def test_a_recipe_may_be_changes_to_another_whose_settings_it_wins_over(shelf, tmp_path):
    shelf(
        base="learning_rate: 1.0e-5\nprover_learning_rate: 2.0e-5\nnum_generations: 8\nroles: {prover: {beta: 0.1}}\n",
        second="recipe: mine/base\nprover_num_generations: 4\nroles: {prover: {temperature: 0.7}}\nmax_steps: 3\n",
        third="recipe: mine/second\nlearning_rate: 3.0e-5\n",
    )
    assert recipe_settings("mine/third") == {
        "learning_rate": 3e-5, "num_generations": 8, "max_steps": 3, "prover_num_generations": 4,
        "roles": {"prover": {"beta": 0.1, "temperature": 0.7}},
    }  # fmt: skip
    same = ["--model_name_or_path", "tiny", "--output_dir", str(tmp_path / "run"), "--use_cpu"]
    args = settings("--recipe", "mine/third", *same)
    solver = args.role("prover")
    assert (solver.learning_rate, solver.beta, solver.temperature) == (3e-5, 0.1, 0.7)
    assert (solver.num_generations, args.max_steps) == (4, 3)


def test_recipes_that_begin_with_each_other_or_with_none_are_refused_in_one_sentence(shelf, capsys):
    shelf(a="recipe: mine/b\n", b="recipe: mine/c\n", c="recipe: mine/b\n", d="recipe: mine/bb\n")
    assert main(["joint", "--recipe", "mine/a", "--dry_run"]) == 2
    said = capsys.readouterr().err
    assert "c.yaml: `recipe` (mine/b) closes a circle, mine/a -> mine/b -> mine/c -> mine/b" in said
    for line in here(["joint", "pool --prepare"]):  # without a dry run, where starts are looked up; and what is made
        assert main([*line.split(), "--recipe", "mine/a"]) == 2
        assert "closes a circle, mine/a -> mine/b" in capsys.readouterr().err
    assert main(["joint", "--recipe", "mine/d", "--dry_run"]) == 2
    assert "mine/bb" in (said := capsys.readouterr().err) and "Did you mean 'mine/b'" in said and said.count("\n") == 1
