"""Flags and the YAML file are checked before torch loads, in the words in which the command's own parser would refuse
them."""

import subprocess
import sys

import pytest
from tests.test_docs import script_of_docs

from countdown_selfplay.cli import early_check, early_needs
from countdown_selfplay.cli.early_check import check_early, check_file, check_flags
from countdown_selfplay.cli.joint import parse
from countdown_selfplay.config.recipes import recipes
from countdown_selfplay.errors import ConfigError, UnknownNameError

WRONG = (
    "--max_stepps 3",
    "--max_steps x",
    "--max_steps",
    "--learning_rate 1e",
    "--fill cut",
    "--guard maybe",
    "--operands 3 four",
    "--generation_backend vlm",
    "--no_such",
)


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_flag_is_refused_in_the_words_of_the_commands_own_parser(line):
    said = []
    for refuse in (lambda argv: check_flags("joint", argv), parse):
        with pytest.raises(ConfigError) as refused:
            refuse(line.split())
        said.append(str(refused.value))
    assert said[0] == said[1]


# ten lists of ten times the one before: 10^10 values in 10 lines, which no reader may write out
BILLIONS = "a0: &a0 [" + ", ".join("0" * 10) + "]\n"
BILLIONS += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10))

WRONG_FILES = {
    "model: tiny": "wrong.yaml: unknown field 'model'. Did you mean 'model_name_or_path'?",
    "prover_lr: 1e-5": "wrong.yaml: unknown field 'prover_lr'. Did you mean 'prover_learning_rate'?",
    "roles: {prover: {lr: 1e-5}}": "`roles.prover.lr` is not a setting of a role. Did you mean 'learning_rate'?",
    "max_stepps: 3": "wrong.yaml: unknown field 'max_stepps'. Did you mean 'max_steps'?",
    "max_steps: three": "`max_steps` (three) must be a whole number.",
    "max_steps: 2.5": "`max_steps` (2.5) must be a whole number.",
    "learning_rate: 1e": "`learning_rate` (1e) must be a number.",
    "guard: maybe": "`guard` (maybe) must be true or false.",
    "guard: null": "`guard` (None) must be true or false.",
    "operands: 3": "`operands` (3) must be a list of whole numbers.",
    "operands: [3, four]": "`operands` ([3, 'four']) must be a list of whole numbers.",
    "reward_funcs: verifier": "`reward_funcs` (verifier) must be a list of texts.",
    "conjecturer_reward_kwargs: [1]": "`conjecturer_reward_kwargs` ([1]) must be a text, or a mapping.",
    "policy_sharing: fulll": "`policy_sharing` (fulll) must be one of full, lora, tied. Did you mean 'full'?",
    "optim: adamw_torc": "`optim` (adamw_torc) must be one of 41 values. Did you mean 'adamw_torch'?",
    "recipe: tiny/defualt": "Unknown recipe 'tiny/defualt'. Did you mean 'tiny/default'?",
    "conjecturer_reward: tentt": "Unknown conjecturer reward 'tentt'. Did you mean 'tent'?",
    "prover_objective: rlooo": "Unknown objective 'rlooo'. Did you mean 'rloo'?",
    "game: propose": "Unknown game 'propose'. Did you mean 'propose_and_solve'?",
    "proposer: tierss": "Unknown proposer 'tierss'. Did you mean 'tiers'?",
    "prover_prompt: tinyzer": "Unknown prover prompt 'tinyzer'. Did you mean 'tinyzero'?",
    "roles: {prover: {playrs: 2}}": "`roles.prover.playrs` is not a setting of a role. Did you mean 'players'?",
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
    "- max_steps": "wrong.yaml must be a YAML mapping from fields to values.",
}


@pytest.mark.parametrize("text", WRONG_FILES, ids=lambda text: text[:60].replace("\n", " "))
def test_a_wrong_file_is_refused_in_the_words_of_the_commands_own_parser(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.yaml").write_text(text + "\n")
    argv = ["--config", "wrong.yaml", "--report_to", "none"]
    said = []
    for refuse in (lambda argv: check_early("joint", argv), parse):
        with pytest.raises((ConfigError, UnknownNameError)) as refused:
            refuse(argv)
        said.append(str(refused.value))
    assert said[0] == said[1] and said[0].startswith(WRONG_FILES[text])


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (
            "joint",
            "eval_strategy: no\nmax_steps: '5'\nlearning_rate: 1e-5\nguard: 'yes'\nreport_to: [none]\nseed: 3.0",
        ),
        ("joint", "conjecturer_reward: my_module:mine\nroles: {prover: {players: 2, objective: rest}}\nenv: {A: 1}"),
        ("sft", "demonstrations: 64\nprover_prompt: compact\ncompletion_only_loss: null"),
        ("cdg", "iterations: 2\nproblems: 8"),
    ],
)
def test_what_the_command_takes_in_a_file_passes(command, text, tmp_path):
    (tmp_path / "mine.yaml").write_text(text + "\n")
    check_file(command, ["--config", str(tmp_path / "mine.yaml")])


def test_yaml_reads_the_word_no_as_false_and_the_field_gets_the_word(tmp_path):
    (tmp_path / "mine.yaml").write_text("recipe: tiny/default\nsave_strategy: no\n")
    assert parse(["--config", str(tmp_path / "mine.yaml"), "--report_to", "none"])[1].save_strategy == "no"


def test_every_shipped_recipe_passes():
    seen = 0
    for command in ("joint", "sft", "ipo", "cdg"):
        for path in recipes(command).values():
            check_file(command, ["--config", str(path)])
            seen += 1
    assert seen == len(list(recipes().values())) + sum(len(recipes(one)) for one in ("sft", "ipo", "cdg")) > 30


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("--model", "--model_name_or_path"),
        ("--lr", "--learning_rate"),
        ("--conjecturer_lr", "--conjecturer_learning_rate"),
    ],
)
def test_a_word_of_other_libraries_leads_to_the_one_here(flag, meant):
    with pytest.raises(ConfigError, match=f"Unknown option '{flag}'. Did you mean '{meant}'?"):
        check_early("joint", [flag, "1"])


@pytest.mark.parametrize("flag", ["--recipe tiny/defualt", "--conjecturer_reward tentt", "--guide rubrik"])
def test_a_name_in_a_flag_is_looked_up_early_too(flag):
    with pytest.raises(UnknownNameError, match=r"Did you mean '(tiny/default|tent|rubric)'"):
        check_early("joint", flag.split())


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--max_steps 3 --learning_rate=1e-5 --guard --no_report --operands 3 4 --fill truncate",
        "--config mine.yaml --recipe tiny/default --report_to none --attn_implementation sdpa",
        "--bf16 false --use_peft --lora_r 8 --resume_from_checkpoint true --eval_strategy steps --warmup_steps 0.1",
        '--roles {"prover":{"players":2}} --max_steps 3',
    ],
)
def test_what_the_command_takes_passes(line):
    assert check_flags("joint", line.split())


def test_with_help_nothing_is_checked_for_the_command_prints_it():
    check_early("joint", ["--max_stepps", "3", "--config", "nowhere.yaml", "--help"])


@pytest.mark.parametrize(
    ("command", "argv", "says"),
    [
        ("joint", ["--push_to_hub"], "`push_to_hub` (True) is not supported"),
        ("joint", ["--push_to_hub", "--max_steps", "3"], "`push_to_hub` (True) is not supported"),
        ("sft", ["--push_to_hub", "true"], "`push_to_hub` (True) is not supported"),
        (
            "joint",
            ["--report_to", "wandb"],
            "(wandb) cannot be used here: wandb is not installed",
        ),
        ("rloo", ["--config", "tracked.yaml"], "(trackio) cannot be used here"),
        ("sgs", [], "'runs/tiny-sgs/"),
        ("cdg", [], "'runs/tiny-cdg-start', which this run starts from, is not there yet"),
        ("cdg", ["--training", "online"], "'runs/tiny-cdg-start', which this run starts from, is not there yet"),
    ],
)
def test_what_a_run_needs_here_is_looked_up_before_torch_loads(command, argv, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(early_needs.importlib.util, "find_spec", lambda name: None)  # no tracker at all
    (tmp_path / "tracked.yaml").write_text("report_to: [tensorboard, trackio]\n")
    if "tracked.yaml" in argv:
        monkeypatch.setattr(early_needs.importlib.util, "find_spec", lambda name: name == "tensorboardX" or None)
    with pytest.raises(ConfigError) as refused:
        check_early(command, argv)
    assert says in str(refused.value)
    check_early(command, [*argv, "--dry_run"])  # it plans for another machine


@pytest.mark.parametrize("trackers", ["3", "[none, [wandb]]"])
def test_a_tracker_in_a_file_that_is_no_name_is_one_sentence(trackers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.yaml").write_text(f"report_to: {trackers}\n")
    with pytest.raises(ConfigError, match=r"`report_to` \(.*\) must be the name of a tracker, or a list of names"):
        check_early("joint", ["--config", "odd.yaml"])


@pytest.mark.parametrize("line", ["dry_run: true\nreport_to: wandb", 'push_to_hub: "false"'])
def test_a_file_too_asks_for_a_dry_run_and_says_no_in_words(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(early_needs.importlib.util, "find_spec", lambda name: None)
    (tmp_path / "plan.yaml").write_text(f"{line}\n")
    check_early("joint", ["--config", "plan.yaml"])


@pytest.mark.parametrize("argv", [[], ["--push_to_hub", "false"], ["--report_to", "none"], ["--recipe", "tiny/rloo"]])
def test_a_run_that_needs_nothing_else_passes(argv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_early("joint", argv)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (
            ["--max_steps", "x"],
            "Argument --max_steps/--max-steps: invalid int value: 'x'; `countdown-selfplay sft --help`",
        ),
        (["--config", "wrong.yaml"], "wrong.yaml: unknown field 'demonstration'. Did you mean 'demonstrations'?"),
        (["--prover_prompt", "compakt"], "Unknown prover prompt 'compakt'. Did you mean 'compact'?"),
    ],
)
def test_what_is_wrong_by_itself_loads_neither_torch_nor_trl(argv, says, tmp_path):
    (tmp_path / "wrong.yaml").write_text("demonstration: 3\n")
    code = (
        f"import sys; from countdown_selfplay.cli.main import main; code = main(['sft', *{argv!r}])\n"
        "print(code, sorted({'torch', 'trl', 'transformers', 'datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split("\n")[-2] == "2 []"
    assert says in done.stderr and done.stderr.count("\n") == 1


def test_under_another_trl_a_flag_that_the_table_lacks_is_left_to_the_commands_own_parser(monkeypatch):
    monkeypatch.setattr(early_check, "version", lambda package: "9.9")
    assert not check_flags("joint", ["--of_the_next_version", "1"])
    with pytest.raises(ConfigError, match="--max_steps/--max-steps: invalid int value"):
        check_flags("joint", ["--max_steps", "x"])


def test_the_table_and_the_page_of_commands_are_what_the_parsers_say():
    """Else: python docs/commands_page.py"""
    module = script_of_docs("commands_page")
    assert module.TABLE.read_text() == module.table()
    assert module.PAGE.read_text() == module.page()


@pytest.mark.parametrize(
    ("command", "flag", "said"),
    [
        ("joint", "--lr", "Did you mean '--learning_rate'?"),
        ("pool", "--prover_lr", "Did you mean '--prover_learning_rate'?"),
        ("sft", "--epochs", "Did you mean '--num_train_epochs'?"),
        ("rloo", "--train_batch_size", "Did you mean '--per_device_train_batch_size'?"),
        ("symbolic", "--rollouts", "Did you mean '--num_generations'?"),
        ("joint", "--wd", "Did you mean '--weight_decay'?"),
        ("cdg", "--max_steps", "Use --iterations; for online training: --training online --max_steps."),
        ("cdg", "--lr", "for online training: --training online --learning_rate."),
    ],
)
def test_the_words_of_other_libraries_lead_to_ours(command, flag, said):
    with pytest.raises(ConfigError) as refused:
        check_early(command, [flag, "3"])
    assert str(refused.value).endswith(said) and flag in str(refused.value)
