"""Policies as plain Hugging Face or PEFT folders with model cards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data.jsonl import json_file
from ..data.run_files import ROLES_FILE, write_atomically
from ..policies import inner_name
from ..tiny import embedded_name
from .cards import example_prompt, exported_roles, role_card, settings_of
from .host import Host


def export_policies(trainer: Host, folder: Path) -> list[Path]:
    """Write every set of weights to `folder/<name>` with tokenizer and model card. All processes call it, for their
    weights may have to be gathered; the main one writes and returns the folders."""
    state = trainer.engine.full_state(trainer.model_wrapped)
    if not trainer.processes.main:
        return []
    return [_export(trainer, name, folder / inner_name(name), state) for name in trainer.policies.weight_names]


def _export(trainer: Host, name: str, target: Path, state: Mapping[str, Any] | None) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    roles, origin = trainer.policies.shared_by(name), trainer.policies.origins.get(name, "")
    said = {
        "roles": roles,
        "rounds": trainer.frame.rounds,
        "samples": {role: trainer.frame.samples.get(role, 0) for role in roles},
        "from": embedded_name(origin) or origin,  # its folder is of this machine alone
        "prompt": example_prompt(trainer.domain, trainer.roles[roles[0]].kind),
        "settings": {role: settings_of(trainer.roles[role]) for role in roles},
    }
    # First: a later run knows the folder by it (set_run_aside).
    (target / ROLES_FILE).write_text(json.dumps(said) + "\n")
    trainer.policies.export(name, target, state)
    trainer.processing_class.save_pretrained(target)
    described = {"config": trainer.args.to_dict(), "domain": trainer.domain.to_dict()}
    (target / "README.md").write_text(role_card(target, described), encoding="utf-8")
    return target


def write_cards(run: Path) -> None:
    """Write the cards of a finished run's roles anew, now with what it was measured to do. `run`: its folder, which
    holds run.json, and evaluation.json if it was measured."""
    folders = exported_roles(run)
    if not folders:
        return
    described = json_file(run / "run.json", config=dict, domain=dict)
    path = run / "evaluation.json"
    evaluation = json_file(path) if path.exists() else None
    for folder in folders:
        write_atomically(folder / "README.md", role_card(folder, described, evaluation))


def export_round(trainer: Host, folder: Path) -> None:
    """Write every set of weights to `folder/<name>/round_<r>/model`, with what the proposer keeps for people beside it
    (tier_config.json): the layout of Multimodal LLM Self-Play, appendix B. A round is there whole or not at all. All
    processes call it."""
    state = trainer.engine.full_state(trainer.model_wrapped)
    if not trainer.processes.main:
        return
    for name in trainer.policies.weight_names:
        whole = folder / inner_name(name) / f"round_{trainer.frame.rounds}"
        staged = whole.with_name(f".{whole.name}.incomplete")
        for leftover in (staged, whole):  # of a process that died here, or of rounds that were given up
            shutil.rmtree(leftover, ignore_errors=True)
        _export(trainer, name, staged / "model", state)
        write_proposer_files(trainer, staged)
        staged.rename(whole)


def write_proposer_files(trainer: Host, folder: Path, method: str = "files") -> None:
    """What the proposer's `files()` names, or for a run folder `run_files()`, as JSON; nothing if it has no such
    method."""
    files = getattr(getattr(trainer.game, "proposer", None), method, dict)
    for name, content in files().items():
        write_atomically(folder / name, json.dumps(content) + "\n")
