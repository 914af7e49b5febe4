# Tests: cli/env.py
"""`countdown-selfplay env`."""

import importlib.metadata
import json
import shutil
import tomllib
from pathlib import Path

import pytest

from countdown_selfplay import __version__
from countdown_selfplay.cli import env, joint

ROOT = Path(__file__).resolve().parents[2]


def test_json_holds_the_installed_versions(shown):
    info = json.loads(shown("env --json"))
    assert info["countdown-selfplay"] == __version__
    for package in ("trl", "torch"):
        assert info["packages"][package] == importlib.metadata.version(package)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert info["extras"].keys() == set(project["optional-dependencies"])
    assert info["extras"]["test"] == importlib.metadata.version("pytest")
    assert info["cores"] >= 1 and info["memory_gib"] > 0 and info["devices"]


@pytest.mark.parametrize(("fault", "cure"), [
    (None, ""),
    (RuntimeError("CUDA out of memory. Tried to allocate"), "another: CUDA_VISIBLE_DEVICES=1"),
    (RuntimeError("Failed to find C compiler. Please specify"), "install gcc and Python's headers"),
    (RuntimeError("CUDA error: no kernel image is available"), "install the torch that pytorch.org's selector"),
    (OSError("no such folder"), "the versions are above"),
])  # fmt: skip
def test_a_round_shows_whether_the_machine_is_ready_and_no_file_of_it_stays(capsys, monkeypatch, fault, cure):
    seen = []

    def played(argv):
        seen.extend(argv)
        Path(argv[-1]).mkdir()
        if fault is not None:
            raise fault

    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(joint, "main", played)
    assert env.main(["--ready"]) == (0 if fault is None else 1)
    said, advice = capsys.readouterr().out.splitlines()[-2:]
    assert advice.startswith("ready: a round on cpu, ") if fault is None else cure in advice
    assert fault is None or said == f"not ready: {type(fault).__name__}: {fault}"
    assert "--max_steps 1 " in " ".join(seen) and not Path(seen[-1]).parent.exists()


def test_a_driver_beside_a_torch_that_sees_no_gpu_is_not_ready(capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(env, "devices", lambda: ["cpu"])
    assert env.main(["--ready"]) == 1
    said, advice = capsys.readouterr().out.splitlines()[-2:]
    assert "sees no GPU" in said and advice.endswith("or unset CUDA_VISIBLE_DEVICES.")
