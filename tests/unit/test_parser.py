# Tests: parser.py, config/recipes.py, config/roles.py, cli/recipes.py
"""Settings are fields: TRL's own parser reads every flag and every recipe; SelfPlayParser adds recipes by name."""

import pytest
import yaml
from trl import ModelConfig, TrlParser

from countdown_selfplay import CountdownArguments, DataArguments, JointSelfPlayConfig, SelfPlayParser
from countdown_selfplay.cli.main import main
from countdown_selfplay.cli.options import OptionParser
from countdown_selfplay.config.recipes import recipes
from countdown_selfplay.config.script import JointScriptArguments
from tests.cli.test_precedence import solve_rates_of_a_run

TYPES = (JointScriptArguments, CountdownArguments, JointSelfPlayConfig, ModelConfig)
QUIET = ["--report_to", "none", "--use_cpu", "true", "--bf16", "false"]


def test_trls_parser_has_every_flag_of_joint():
    flags = {flag for action in TrlParser(TYPES)._actions for flag in action.option_strings}
    assert {flag for action in OptionParser("joint")._actions for flag in action.option_strings} == flags
    line = "--prover_learning_rate 1e-5 --operands 3 4 --anchor_fraction 0.25 --easy_above 0.1 --prover_beta 0"
    _, countdown, args, _ = TrlParser(TYPES).parse_args_and_config([*line.split(), *QUIET])
    assert countdown.operands == [3, 4] and args.anchor_fraction == 0.25 and args.easy_above == 0.1
    assert (args.role("prover").learning_rate, args.role("prover").beta) == (1e-5, 0.0)
    assert args.role("conjecturer").learning_rate == args.learning_rate


NAMES = sorted(recipes())
SOME = [pytest.param(name, marks=[pytest.mark.matrix] * (i % 6 > 0)) for i, name in enumerate(NAMES)]


@pytest.mark.parametrize("name", SOME)
def test_trls_parser_reads_every_recipe_as_it_is_printed(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    solve_rates_of_a_run()
    assert main(["recipes", name]) == 0
    printed = capsys.readouterr().out
    assert "recipe" not in yaml.safe_load(printed)
    (tmp_path / "printed.yaml").write_text(printed)
    _, countdown, args, model = TrlParser(TYPES).parse_args_and_config(["--config", "printed.yaml", *QUIET])
    parser = SelfPlayParser(TYPES)
    _, own, theirs, same = parser.parse_args_and_config(["--config", name, *QUIET])
    assert (countdown, model.model_name_or_path) == (own, same.model_name_or_path)
    assert args.all_roles == theirs.all_roles and args.game_arguments == theirs.game_arguments


def test_a_recipe_is_named_by_config_or_recipe_and_a_file_lies_over_it(tmp_path, capsys):
    parser = SelfPlayParser((DataArguments, CountdownArguments, JointSelfPlayConfig, ModelConfig), "tiny/default")

    def read(*argv):
        return parser.parse_args_and_config([*argv, *QUIET])

    data, countdown, args, model = read()
    assert model.model_name_or_path == "tiny" and countdown.operands == [3] == args.countdown.operands
    assert data.dataset_name is None and args.model_init_kwargs["dtype"] == model.dtype
    assert read("--config", "tiny/ladder")[2].answers == read("--recipe", "tiny/ladder")[2].answers == "moves"
    assert read("--model_name_or_path", "some/model")[1].operands == [3, 4]  # no recipe
    (tmp_path / "own.yaml").write_text("recipe: tiny/ladder\nprover_beta: 0.5\n")
    assert read("--config", str(tmp_path / "own.yaml"), "--beta", "0.25")[2].role("prover").beta == 0.25
    nothing = '{"prover": {"learning_rate": null}}'  # of the recipe, 1e-4
    assert read("--roles", nothing)[2].role("prover").learning_rate == args.learning_rate == 1e-6
    with pytest.raises(SystemExit, match="2"):
        read("--recipe", "--dry_run")  # the next flag is not its name
    assert "`--recipe` needs the name of a recipe" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        read("--prover_top_k", "3")
    assert ended.value.code == 2
    assert "Unknown option '--prover_top_k'. Set it in `roles`: {prover: {top_k: ...}}." in capsys.readouterr().err
