# Tests: tools/make_tiny_model/__main__.py
"""`python -m tools.make_tiny_model`: training into a folder, measuring, refusals."""

import json

import pytest
from tools.make_tiny_model.__main__ import main

from countdown_selfplay.errors import ConfigError, DataError


def test_a_run_writes_a_model_that_can_be_measured(tmp_path, capsys):
    output = tmp_path / "tiny"
    assert main(["--output", str(output), "--steps", "1", "--evaluate", "--json", *few()]) == 0
    printed = capsys.readouterr()
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {path.name for path in output.iterdir()}
    assert "step 1/1" in printed.err
    assert "not the shipped weights" in printed.err
    figures = json.loads(printed.out)
    assert (figures["prover"]["problems"], figures["prover"]["n"]) == (4, 2)
    assert figures["conjecturer"]["n"] == 8


@pytest.mark.parametrize(("argv", "message"), [
    ([], "There is nothing to do"),
    (["--output", "new", "--model", "old"], "pass one of them"),
    (["--output", "new", "--steps", "0"], r"--steps \(0\) must be at least 1"),
    (["--evaluate", "--samples", "0"], r"--samples \(0\) must be at least 1"),
])  # fmt: skip
def test_a_wrong_call_is_refused_in_one_sentence(argv, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        main(argv)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_and_a_folder_without_a_model_is_named(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not an empty folder"):
        main(["--output", str(tmp_path), "--steps", "1"])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(DataError, match=r"holds no config\.json"):
        main(["--evaluate", "--model", str(tmp_path)])


def few() -> list[str]:
    return ["--problems", "4", "--samples", "2", "--proposals", "8"]
