"""Policies as plain Hugging Face or PEFT folders with model cards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import JointSelfPlayConfig
from ..data.jsonl import json_file
from ..data.run_files import ROLES_FILE, write_atomically
from ..distributed.ddp import Engine
from ..distributed.processes import Processes
from ..policies import inner_name
from ..tiny import embedded_name
from .book import Frame
from .cards import example_prompt, exported_roles, role_card, settings_of


@dataclass(eq=False)
class Exports:
    """Writes the policies of a run as model folders."""

    args: JointSelfPlayConfig
    engine: Engine
    processes: Processes
    frame: Frame
    domain: Any
    proposer: Any
    """Of the game, whose `files()` lie beside a checkpoint; None without one."""
    tokenizer: Any

    def write(self, folder: Path) -> list[Path]:
        """Write every set of weights to `folder/<name>` with tokenizer and model card. All processes call it, for
        their weights may have to be gathered; the main one writes and returns the folders."""
        state = self.engine.full_state()
        if not self.processes.main:
            return []
        return [self._write(name, folder / inner_name(name), state) for name in self.engine.policies.weight_names]

    def _write(self, name: str, target: Path, state: Mapping[str, Any] | None) -> Path:
        target.mkdir(parents=True, exist_ok=True)
        policies, settings = self.engine.policies, self.args.all_roles
        roles, origin = policies.shared_by(name), policies.origins.get(name, "")
        said = {
            "roles": roles,
            "rounds": self.frame.rounds,
            "samples": {role: self.frame.samples.get(role, 0) for role in roles},
            "from": embedded_name(origin) or origin,  # its folder is of this machine alone
            "prompt": example_prompt(self.domain, settings[roles[0]].kind),
            "settings": {r: settings_of(settings[r], self.args, self.domain) for r in roles},
        }
        # First: a later run knows the folder by it (set_run_aside).
        (target / ROLES_FILE).write_text(json.dumps(said) + "\n")
        policies.export(name, target, state)
        self.tokenizer.save_pretrained(target)
        described = {"config": self.args.to_dict(), "domain": self.domain.to_dict()}
        (target / "README.md").write_text(role_card(target, described), encoding="utf-8")
        return target

    def write_round(self, folder: Path) -> None:
        """Write every set of weights to `folder/<name>/round_<r>/model`, with the proposer's `files()` beside it
        (tier_config.json): the layout of Multimodal LLM Self-Play, appendix B. A round is there whole or not at all.
        All processes call it."""
        state = self.engine.full_state()
        if not self.processes.main:
            return
        for name in self.engine.policies.weight_names:
            whole = folder / inner_name(name) / f"round_{self.frame.rounds}"
            staged = whole.with_name(f".{whole.name}.incomplete")
            for leftover in (staged, whole):  # of a process that died here, or of rounds that were given up
                shutil.rmtree(leftover, ignore_errors=True)
            self._write(name, staged / "model", state)
            self.write_proposer_files(staged)
            staged.rename(whole)

    def write_proposer_files(self, folder: Path, run: bool = False) -> None:
        """Write the proposer's `files()`, or for a run folder `run_files()`, as JSON."""
        if self.proposer is not None:
            for name, content in (self.proposer.run_files() if run else self.proposer.files()).items():
                write_atomically(folder / name, json.dumps(content) + "\n")


def write_cards(run: Path) -> None:
    """Write the cards of a finished run's roles again, now with its evaluation. `run`: its folder, which holds
    run.json, and evaluation.json if it was measured."""
    folders = exported_roles(run)
    if not folders:
        return
    described = json_file(run / "run.json", config=dict, domain=dict)
    path = run / "evaluation.json"
    evaluation = json_file(path) if path.exists() else None
    for folder in folders:
        write_atomically(folder / "README.md", role_card(folder, described, evaluation))
