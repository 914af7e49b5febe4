"""`countdown-selfplay cdg` on the tiny model, both ways. The shipped weights do not know the game."""

import json

import pytest

from countdown_selfplay.cli.main import main
from countdown_selfplay.iterated import select

SHORT = ["--problems", "6", "--chunk", "4", "--iterations", "1", "--eval_problems", "4", "--eval_samples", "2"]


def test_one_iteration_by_the_paper_and_again_with_another(tmp_path, capsys):
    arguments = ["cdg", "--recipe", "tiny/iterated_cdg", "--output_dir", str(tmp_path / "run"), *SHORT]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert '"phase": "play"' in said and "prover pass@2" in said
    rows = select.read(tmp_path / "run" / "iteration-1" / "played-00000.parquet")
    assert {row["weights"] for row in rows} and len({row["problem"] for row in rows}) == 4
    lines = [json.loads(line) for line in (tmp_path / "run" / "iterations.jsonl").read_text().splitlines()]
    assert [line.get("role") for line in lines] == [None, "prover", "helpful", "misleading"]
    empty = [line["role"] for line in lines if line.get("note")]
    assert "helpful" in empty and "prover" not in empty  # nobody was mended: reported, the role keeps its weights
    assert main([*arguments, "--seed", "3"]) == 2
    assert "was begun with other settings (seed: 0, now 3" in capsys.readouterr().err


def test_online_it_is_a_joint_run_with_the_games_recipe(tmp_path, capsys):
    arguments = ["--training", "online", "--output_dir", str(tmp_path), "--max_steps", "1", "--eval_problems", "0"]
    assert main(["cdg", *arguments, "--save_strategy", "no", "--per_device_train_batch_size", "16"]) == 0
    (line, *_) = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert {"misleading/read_rate", "helpful/read_rate", "prover/correct_rate"} <= set(line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--training", "offline"], "choose from 'iterated', 'online'"),
        (["--role_training", "{}"], "`role_training` ('{}') must map kinds to their settings"),
        (["--iteration", "2"], "Unknown option '--iteration'. Did you mean '--iterations'?"),
        (["--game_kwargs", '{"eta": -1}'], "`eta` (-1) must be at least 0"),
        (["--domain", "math_qa"], "makes no problems of its own; pass"),
    ],
)
def test_bad_input_is_one_sentence(arguments, message, tmp_path, capsys):
    assert main(["cdg", "--output_dir", str(tmp_path / "run"), *SHORT, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
