# Tests: studies/pretrained.py, examples/recipes/smollm2-135m
"""The study of a pretrained model: the stages that it plays, skips and resumes, and its arms as settings of a run."""

import pretrained


def words_of(tmp_path, monkeypatch, *flags):
    played = []
    monkeypatch.setattr(pretrained, "command", lambda words: played.append(words) or 0)
    monkeypatch.setattr(pretrained, "MODEL", tmp_path / "model")
    assert pretrained.main(["--folder", str(tmp_path), "--arms", "trained", "plain", "--seeds", "1", *flags]) == 0
    return played


def test_a_stage_that_left_its_file_is_skipped_and_a_run_with_a_checkpoint_resumes(tmp_path, monkeypatch, capsys):
    names = ["models", "sft", "sft", "eval", "eval", *["joint", "eval"] * 2, "compare", "compare"]
    assert [words[0] for words in words_of(tmp_path, monkeypatch)] == names
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    (tmp_path / "start.json").touch()
    (tmp_path / "prover" / "checkpoint-20").mkdir(parents=True)
    played = words_of(tmp_path, monkeypatch)
    assert [words[0] for words in played] == ["sft", "sft", "eval", *names[5:]]
    assert [words[-2:] == ["--resume_from_checkpoint", "true"] for words in played[:2]] == [True, False]
    assert played[-2][:2] == ["compare", f"start={tmp_path}/start.jsonl"]
    assert played[-1][1:3] == [f"trained={tmp_path}/trained-1.jsonl", f"plain={tmp_path}/plain-1.jsonl"]
    capsys.readouterr()
    assert words_of(tmp_path, monkeypatch, "--dry_run") == [] and capsys.readouterr().out.startswith("done  models")
