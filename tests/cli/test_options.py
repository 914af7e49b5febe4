# Tests: cli/options.py, cli/help.py, cli/commands.py, cli/joint.py, cli/sources.py
"""How recipe, config file and flags are read, and which of their mistakes are refused before torch loads."""

import json
import os

import pytest

from countdown_selfplay.cli import help
from countdown_selfplay.cli.help import help_text
from countdown_selfplay.cli.joint import parse
from countdown_selfplay.cli.sources import check_early
from countdown_selfplay.errors import ConfigError


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


def test_help_part_lists_the_arguments_of_the_parts_of_a_kind_and_no_kind_is_refused_by_the_nearest(shown, refused):
    assert shown("joint --help-part reward tent").startswith("tent\n")
    assert "\ntiers\n" in shown("joint --help-part proposer")
    assert "Unknown kind of part 'rewards'. Did you mean 'reward'?" in refused("joint --help-part rewards")
