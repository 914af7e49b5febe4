"""Flags are checked before torch loads, in the words in which the command's own parser would refuse them."""

import subprocess
import sys

import pytest
from tests.test_docs import script_of_docs

from countdown_selfplay.cli import early_check
from countdown_selfplay.cli.early_check import check_flags
from countdown_selfplay.cli.joint import parse
from countdown_selfplay.errors import ConfigError

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


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--max_steps 3 --learning_rate=1e-5 --guard --no_report --operands 3 4 --fill truncate",
        "--config mine.yaml --recipe tiny/default --report_to none --attn_implementation sdpa",
        "--bf16 false --use_peft --lora_r 8 --resume_from_checkpoint true --eval_strategy steps --warmup_steps 0.1",
        '--roles {"prover":{"players":2}} --max_steps 3',
        "--max_stepps 3 --help",  # the command prints its help
    ],
)
def test_what_the_command_takes_passes(line):
    check_flags("joint", line.split())


def test_a_wrong_flag_loads_neither_torch_nor_trl():
    code = (
        "import sys; from countdown_selfplay.cli.main import main; code = main(['sft', '--max_steps', 'x'])\n"
        "print(code, sorted({'torch', 'trl', 'transformers', 'datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.split("\n")[-2] == "2 []"
    assert "Argument --max_steps/--max-steps: invalid int value: 'x'; `countdown-selfplay sft --help`" in done.stderr


def test_under_another_trl_a_flag_that_the_table_lacks_is_left_to_the_commands_own_parser(monkeypatch):
    monkeypatch.setattr(early_check, "version", lambda package: "9.9")
    check_flags("joint", ["--of_the_next_version", "1"])
    with pytest.raises(ConfigError, match="--max_steps/--max-steps: invalid int value"):
        check_flags("joint", ["--max_steps", "x"])


def test_the_table_and_the_page_of_commands_are_what_the_parsers_say():
    """Else: python docs/commands_page.py"""
    module = script_of_docs("commands_page")
    assert module.TABLE.read_text() == module.table()
    assert module.PAGE.read_text() == module.page()
