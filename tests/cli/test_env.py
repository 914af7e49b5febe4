# Tests: cli/env.py
"""`countdown-selfplay env`."""

import importlib.metadata
import json
import tomllib
from pathlib import Path

from countdown_selfplay import __version__
from countdown_selfplay.cli import env

ROOT = Path(__file__).resolve().parents[2]


def test_json_holds_the_installed_versions(capsys):
    assert env.main(["--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["countdown-selfplay"] == __version__
    assert info["packages"]["trl"] == importlib.metadata.version("trl")
    assert info["packages"]["torch"] == importlib.metadata.version("torch")
    assert info["extras"].keys() == set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )
    assert info["extras"]["test"] == importlib.metadata.version("pytest")
    assert info["cores"] >= 1 and info["memory_gib"] > 0 and info["devices"]


def test_text_has_one_line_per_fact_and_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(env.EXTRAS, "vllm", "a-distribution-that-does-not-exist")
    assert env.main([]) == 0
    rows = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert rows["extra [vllm]"].strip() == "not installed"
    assert rows["trl"].strip() == importlib.metadata.version("trl")
    assert env.version("a-distribution-that-does-not-exist") is None
    monkeypatch.setattr(env, "version", lambda name: None)
    assert env.devices() == []
    assert "unknown (torch is not installed)" in env.as_text(env.environment())
