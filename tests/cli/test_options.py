# Tests: cli/options.py, cli/help.py, cli/commands.py, cli/joint.py, cli/sources.py
"""cli/options.py, sources.py, data/yaml_file.py: how recipe, config file and flags are read, and which of
their mistakes are refused before torch loads."""

import json
import os
import subprocess
import sys

import pytest

from countdown_selfplay.cli import help, sources
from countdown_selfplay.cli.help import help_text
from countdown_selfplay.cli.joint import parse
from countdown_selfplay.cli.main import main
from countdown_selfplay.cli.options import OptionParser
from countdown_selfplay.cli.sources import check_early
from countdown_selfplay.config.recipes import recipes
from countdown_selfplay.errors import ConfigError, UnknownNameError

from ..installed import here

WRONG = {
    "--max_stepps 3": "Unknown option '--max_stepps'. Did you mean '--max_steps'?",
    "--qqqqq": "Unknown option '--qqqqq'. `--help-all` lists them.",
    "--max_steps x": "Argument --max_steps/--max-steps: invalid int value: 'x'; `countdown-selfplay joint --help`",
    "--max_steps": "Argument --max_steps/--max-steps: expected one argument",
    "--learning_rate 1e": "Argument --learning_rate/--learning-rate: invalid float value: '1e'",
    "--fill cut": "Argument --fill: invalid choice: 'cut' (choose from",
    "--guard maybe": "Argument --guard: Truthy value expected: got maybe",
    "--operands 3 four": "Argument --operands: invalid int value: 'four'",
    "--max_steps 3 four": "Unrecognized arguments: four",
    "--conjecturer_reward tentt": "Unknown conjecturer reward 'tentt'. Did you mean 'tent'?",
    "--guide rubrik": "Unknown guide 'rubrik'. Did you mean 'rubric'?",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_flag_is_one_sentence(line):
    with pytest.raises((ConfigError, UnknownNameError)) as refused:
        parse([*line.split(), "--report_to", "none"] if "four" not in line else line.split())
    assert str(refused.value).startswith(WRONG[line])


# ten lists of ten times the one before: 10^10 values in 10 lines, which no reader may write out
BILLIONS = "a0: &a0 [" + ", ".join("0" * 10) + "]\n"
BILLIONS += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10))

WRONG_FILES = {
    "model: tiny": "wrong.yaml: unknown field 'model'. Did you mean 'model_name_or_path'?",
    "prover_lr: 1e-5": "wrong.yaml: unknown field 'prover_lr'. Did you mean 'prover_learning_rate'?",
    "max_stepps: 3": "wrong.yaml: unknown field 'max_stepps'. Did you mean 'max_steps'?",
    "no_report: true": "wrong.yaml: unknown field 'no_report'.",
    "max_steps: three": "`max_steps` ('three') must be a whole number.",
    "max_steps: 2.5": "`max_steps` (2.5) must be a whole number.",
    "max_steps: .inf": "`max_steps` (inf) must be a finite number.",
    "max_steps: [1, 2]": "`max_steps` ([1, 2]) must be a whole number.",
    "learning_rate: 1e": "`learning_rate` ('1e') must be a number.",
    "learning_rate: true": "`learning_rate` (True) must be a number.",
    "seed: null": "`seed` (None) must be a whole number.",
    "guard: maybe": "`guard` ('maybe') must be true or false.",
    "guard: null": "`guard` (None) must be true or false.",
    "operands: 3": "`operands` (3) must be a list, each entry a whole number.",
    "operands: [3, four]": "`operands` ([3, 'four']) must be a list, each entry a whole number.",
    "reward_funcs: verifier": "`reward_funcs` ('verifier') must be a list, each entry a text or null.",
    "prover_objective: {a: 1}": "`prover_objective` ({'a': 1}) must be a text or null.",
    "conjecturer_reward_kwargs: [1]": "`conjecturer_reward_kwargs` ([1]) must be a mapping, or a JSON object such as",
    "policy_sharing: fulll": "`policy_sharing` (fulll) must be one of full, lora, tied. Did you mean 'full'?",
    "optim: adamw_torc": "`optim` (adamw_torc) must be one of 41 values. Did you mean 'adamw_torch'?",
    "recipe: tiny/defualt": "Unknown recipe 'tiny/defualt'. Did you mean 'tiny/default'?",
    "recipe: [tiny/default]": "`recipe` (['tiny/default']) must be a text.",
    "conjecturer_reward: tentt": "Unknown conjecturer reward 'tentt'. Did you mean 'tent'?",
    "prover_objective: rlooo": "Unknown objective 'rlooo'. Did you mean 'rloo'?",
    "game: propose": "Unknown game 'propose'. Did you mean 'propose_and_solve'?",
    "proposer: tierss": "Unknown proposer 'tierss'. Did you mean 'tiers'?",
    "prover_prompt: tinyzer": "Unknown prover prompt 'tinyzer'. Did you mean 'tinyzero'?",
    "roles: {prover: {playrs: 2}}": "`roles.prover.playrs` is not a setting of a role. Did you mean 'players'?",
    "roles: {prover: {lr: 1e-5}}": "`roles.prover.lr` is not a setting of a role. Did you mean 'learning_rate'?",
    "env: 3": "wrong.yaml: `env` (3) must map environment variables to their values.",
    "env: {3: 1}": "wrong.yaml: `env` sets 3 to 1; it must map the name of an environment variable",
    "env: {'A=B': 1}": "wrong.yaml: `env` sets 'A=B' to 1; it must map",
    "env: {A: null}": "wrong.yaml: `env` sets 'A' to None; it must map",
    "null: 4": "wrong.yaml: unknown field None; the name of a field is a text.",
    "3: 4": "wrong.yaml: unknown field 3; the name of a field is a text.",
    'output_dir: "a\\0b"': "wrong.yaml: 'a\\x00b' holds the character NUL, which no name or path can; remove it.",
    'roles: {prover: {"model": "a\\0b"}}': "wrong.yaml: 'a\\x00b' holds the character NUL",
    "max_steps: " + "[" * 3000 + "]" * 3000: "wrong.yaml: lists and mappings are nested more than 50 deep.",
    "max_steps: " + "[" * 51 + "]" * 51: "wrong.yaml: lists and mappings are nested more than 50 deep.",
    "conjecturer_reward_kwargs: &a {terms: [{kwargs: *a}]}": "wrong.yaml: a list or mapping holds itself, by an alias",
    BILLIONS: "wrong.yaml: lists and mappings are more than 100000 values.",
    "max_steps: [3": "wrong.yaml is not YAML: line 1: expected ',' or ']', but got '<stream end>'.",
    "max_steps: 3\nseed: 1\nmax_steps: 4": "wrong.yaml is not YAML: line 3: 'max_steps' is there twice.",
    "roles: {prover: {beta: 0, beta: 1}}": "wrong.yaml is not YAML: line 1: 'beta' is there twice.",
    "- max_steps": "wrong.yaml must be a YAML mapping from fields to values.",
}


@pytest.mark.parametrize("text", WRONG_FILES, ids=lambda text: text[:60].replace("\n", " "))
def test_a_wrong_file_is_one_sentence(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.yaml").write_text(text + "\n")
    with pytest.raises((ConfigError, UnknownNameError)) as refused:
        parse(["--config", "wrong.yaml", "--report_to", "none"])
    assert str(refused.value).startswith(WRONG_FILES[text])


def test_yaml_values_become_those_of_their_fields(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "recipe: tiny/default\nsave_strategy: no\nmax_steps: '5'\nlearning_rate: 1e-5\nguard: 'true'\nseed: 3.0\n"
        "report_to: [none]\nresume_from_checkpoint: true\noperands: [2, 3]\n"
        "guard_trips: {prover/entropy: [0.1, null]}\n"
        "dataset_name: null\nroles: {prover: &a {top_k: 5}, conjecturer: {<<: *a, top_k: 0}}\n"
        "env: {COUNTDOWN_TEST: 1}\nbf16: false\n"
    )  # YAML reads `no` as false, and lets a mapping change what it takes from another
    script, args, _ = parse(["--config", str(tmp_path / "mine.yaml")])
    assert (args.save_strategy, args.max_steps, args.learning_rate, args.guard, args.seed) == ("no", 5, 1e-5, True, 3)
    assert (args.resume_from_checkpoint, args.countdown.operands, script.dataset_name) == (True, [2, 3], None)
    assert args.guard_trips["prover/entropy"][0] == 0.1
    assert (args.given("prover", "top_k"), args.given("conjecturer", "top_k")) == (5, 0)
    assert type(args.seed) is int and os.environ.pop("COUNTDOWN_TEST") == "1"


def test_every_shipped_recipe_is_read_by_its_command():
    seen = 0
    for command in here(["joint", "sft", "ipo", "cdg"]):
        parser = OptionParser(command)
        for name in recipes(command):
            asked = sources.sources_of(command, ["--recipe", name])
            asked.check_names(parser.fields)
            for _, settings in asked.shipped:
                parser.typed(settings)
            seen += 1
    assert seen > 30


@pytest.mark.parametrize(("command", "flag", "said"), [
    ("joint", "--model", "Did you mean '--model_name_or_path'?"),
    ("joint", "--learnin_rate", "Did you mean '--learning_rate'?"),
    ("joint", "--lr", "Did you mean '--learning_rate'?"),
    ("pool", "--prover_lr", "Did you mean '--prover_learning_rate'?"),
    ("sft", "--epochs", "Did you mean '--num_train_epochs'?"),
    ("rloo", "--train_batch_size", "Did you mean '--per_device_train_batch_size'?"),
    ("symbolic", "--rollouts", "Did you mean '--num_generations'?"),
    ("cdg", "--max_steps", "Iterated training has --iterations; for online training: --training online --max_steps."),
    ("cdg", "--lr", "for online training: --training online --learning_rate."),
])  # fmt: skip
def test_a_name_that_is_no_option_leads_to_the_one_here(command, flag, said):
    with pytest.raises(ConfigError) as refused:
        check_early(command, [flag, "3"])
    assert str(refused.value).endswith(said) and flag in str(refused.value)


@pytest.mark.parametrize("line", [
    "",
    "--max_steps 3 --learning_rate=1e-5 --guard --no_report --operands 3 4 --fill truncate --truncate_multiple 8",
    "--recipe tiny/default --report_to none --attn_implementation sdpa",
    "--bf16 false --eval_strategy steps --eval_steps 2 --warmup_steps 0.1",
    '--roles {"prover":{"players":1}} --max_steps 3',
    "--max-steps 3 --no-report",
])  # fmt: skip
def test_right_flags_pass_early_and_late(line):
    assert check_early("joint", line.split()) is False
    parse([*line.split(), "--report_to", "none"])


def test_a_flag_of_two_values_may_stand_alone_and_help_leaves_a_name_to_the_parser():
    assert parse(["--no_report", "--guard", "false", "--shuffled_rewards"])[0].report is False
    assert check_early("joint", ["--max_stepps", "3", "--help"]) is False


@pytest.mark.parametrize("versions", [{"trl": "0.1"}, {"no_such_package": "1"}])
def test_a_file_of_options_for_other_versions_is_passed_over(versions, tmp_path, monkeypatch):
    usual, known = help_text("joint", False), json.loads(help.FILE.read_text())
    wrong = {"options": [{"name": "max_stepps"}] * len(known["options"])}
    monkeypatch.setattr(help, "FILE", tmp_path / "options.json")
    help.FILE.write_text(json.dumps(known | wrong))
    with pytest.raises(ConfigError, match=r"Unknown option '--max_steps'\. Did you mean '--max_stepps'\?"):
        check_early("joint", ["--max_steps", "1"])
    help.FILE.write_text(json.dumps(known | wrong | {"versions": versions}))
    assert check_early("joint", ["--max_stepps", "1"]) is False
    with pytest.raises(ConfigError, match=r"Unknown option '--max_stepps'\. Did you mean '--max_steps'\?"):
        parse(["--max_stepps", "1"])
    assert help_text("joint", False) == usual  # of the parser


@pytest.mark.parametrize(("text", "flags", "planned"), [
    ("dry_run: true", [], True),
    ("dry_run: 'no'", [], False),
    ("dry_run: true", ["--dry_run", "false"], False),
    ("max_steps: 3", ["--dry_run", "--seed", "1"], True),
    ("max_steps: 3", [], False),
])  # fmt: skip
def test_a_file_or_a_flag_asks_for_a_dry_run(text, flags, planned, tmp_path):
    (tmp_path / "plan.yaml").write_text(f"{text}\n")
    assert check_early("joint", ["--config", str(tmp_path / "plan.yaml"), *flags]) is planned


@pytest.mark.parametrize(("argv", "says"), [
    (["--learnin_rate", "1"], "Unknown option '--learnin_rate'. Did you mean '--learning_rate'?"),
    (["--config", "wrong.yaml"], "wrong.yaml: unknown field 'demonstration'. Did you mean 'demonstrations'?"),
    (["--recipe", "tiny/sfd"], "Unknown recipe 'tiny/sfd'. Did you mean 'tiny/sft'?"),
])  # fmt: skip
def test_a_name_that_does_not_exist_loads_neither_torch_nor_trl(argv, says, tmp_path):
    (tmp_path / "wrong.yaml").write_text("demonstration: 3\n")
    code = (
        f"import sys; from countdown_selfplay.cli.main import main; code = main(['sft', *{argv!r}])\n"
        "print(code, sorted({'torch', 'trl', 'transformers', 'datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split("\n")[-2] == "2 []"
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_help_part_lists_the_arguments_of_the_parts_of_a_kind_and_no_kind_is_refused_by_the_nearest(capsys):
    assert main(["joint", "--help-part", "reward", "tent"]) == 0
    assert capsys.readouterr().out.startswith("tent\n")
    assert main(["joint", "--help-part", "proposer"]) == 0
    assert "\ntiers\n" in capsys.readouterr().out
    assert main(["joint", "--help-part", "rewards"]) == 2
    assert "Unknown kind of part 'rewards'. Did you mean 'reward'?" in capsys.readouterr().err
