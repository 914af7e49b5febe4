"""Policies as plain Hugging Face or PEFT folders with model cards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..config import JointSelfPlayConfig
from ..data.jsonl import json_file
from ..data.run_files import ROLES_FILE, write_atomically
from ..distributed.ddp import Engine
from ..distributed.processes import Processes
from ..errors import CountdownSelfPlayError, ExportError
from ..policies import inner_name
from ..policies.adapters import name_base, uncut
from ..policies.build import load_pretrained
from ..tiny import embedded_name
from .book import Frame
from .cards import example_prompt, exported_roles, role_card, settings_of

LARGE = 8 << 30
"""Bytes of weights beyond which an export is not loaded again."""
_LOADED = {"dtype": "float32"}


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

    def __post_init__(self) -> None:
        self._bases: set[Path] = set()
        """Folders of bases that this run has written: nothing trains them."""

    def write(self, folder: Path) -> list[Path]:
        """Write every set of weights to `folder/<name>` with tokenizer and model card. All processes call it, for
        their weights may have to be gathered; the main one writes and returns the folders."""
        return self._written(folder, self.engine.full_state())

    def _written(self, folder: Path, state: Mapping[str, Any] | None) -> list[Path]:
        self._write_bases(folder, state)
        names = self._names if self.processes.main else ()
        return [self._write(name, folder / inner_name(name), folder, state) for name in names]

    @property
    def _names(self) -> tuple[str, ...]:
        return self.engine.policies.weight_names

    def write_last(self, folder: Path) -> list[tuple[Path, str, bool]]:
        """As `write`, and load each export again. (folder, words about it, does it hold the policy?) of each, on all
        processes."""
        state = self.engine.full_state()
        written = self._written(folder, state)
        pairs = zip(self._names, written, strict=False)  # the main process writes
        return self.processes.together(lambda: [self._loaded(*one, state) for one in pairs])

    def _loaded(self, name: str, folder: Path, state: Mapping[str, Any] | None) -> tuple[Path, str, bool]:
        policies = self.engine.policies
        held: Any = policies.module.state_dict() if state is None else state
        models = len(getattr(policies.module, "policies", (0,)))
        if sum(value.nbytes for value in held.values()) > LARGE * models:
            return folder, f"larger than {LARGE >> 30} GiB, not loaded again", True
        with uncut():
            fault = fault_of(lambda: policies.rebuilt(name, state), folder, self.args.trust_remote_code)
        return folder, fault, not fault

    def write_bases(self, folder: Path) -> None:
        """Write the bases that checkpoints of adapters in `folder` need and that nothing else names. All processes
        call it."""
        if self._bases_in(folder).keys() - self._bases:
            self._write_bases(folder, self.engine.full_state())

    def _bases_in(self, folder: Path) -> dict[Path, str]:
        """Folder of a base -> the weights that are an adapter over it."""
        beside = {name: self.engine.policies.base_beside(name) for name in self._names}
        return {folder / base: name for name, base in beside.items() if base}

    def _write_bases(self, folder: Path, state: Mapping[str, Any] | None) -> None:
        for whole, name in self._bases_in(folder).items():
            if whole in self._bases:
                continue
            self._bases.add(whole)
            if self.processes.main:
                staged = whole.with_name(f".{whole.name}.incomplete")
                for leftover in (staged, whole):
                    shutil.rmtree(leftover, ignore_errors=True)
                self.engine.policies.export_base(name, staged, whole, state)
                staged.rename(whole)

    def _write(self, name: str, target: Path, run: Path, state: Mapping[str, Any] | None) -> Path:
        """`run`: the folder in which the base of an adapter without one lies."""
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
        if base := policies.base_beside(name):
            name_base(target, str(run / base))
        self.tokenizer.save_pretrained(target)
        described = {"config": self.args.to_dict(), "domain": self.domain.to_dict()}
        (target / "README.md").write_text(role_card(target, described), encoding="utf-8")
        return target

    def write_round(self, folder: Path) -> None:
        """Write every set of weights to `folder/<name>/round_<r>/model`, with the proposer's `files()` beside it
        (tier_config.json): the layout of Multimodal LLM Self-Play, appendix B. A round is there whole or not at all.
        All processes call it."""
        state = self.engine.full_state()
        self._write_bases(folder, state)
        if not self.processes.main:
            return
        for name in self.engine.policies.weight_names:
            whole = folder / inner_name(name) / f"round_{self.frame.rounds}"
            staged = whole.with_name(f".{whole.name}.incomplete")
            for leftover in (staged, whole):  # of a process that died here, or of rounds that were given up
                shutil.rmtree(leftover, ignore_errors=True)
            self._write(name, staged / "model", folder, state)
            self.write_proposer_files(staged)
            staged.rename(whole)

    def write_proposer_files(self, folder: Path, run: bool = False) -> None:
        """Write the proposer's `files()`, or for a run folder `run_files()`, as JSON."""
        if self.proposer is not None:
            for name, content in (self.proposer.run_files() if run else self.proposer.files()).items():
                write_atomically(folder / name, json.dumps(content) + "\n")


def fault_of(trained: Callable[[], nn.Module], folder: Path, trust_remote_code: bool) -> str:
    """The fault of the model in `folder`; "" if it scores tokens as the trained one does, both in float32 on the
    CPU. `trained`: makes that one."""
    with torch.random.fork_rng(devices=[]):  # PEFT draws an adapter's values before it reads them
        expected = scores(trained())
        try:
            found = scores(load_pretrained(str(folder), _LOADED | {"trust_remote_code": trust_remote_code}, False))
        except CountdownSelfPlayError as error:
            return f"it cannot be loaded again: {error}"
    if torch.allclose(found, expected, rtol=1e-4, atol=1e-4):
        return ""
    gap = float((found - expected).abs().max())
    return f"it is not the policy that was trained: its log-probs differ by up to {gap:.2g} nats a token"


@torch.no_grad()
def scores(model: Any) -> torch.Tensor:
    """(2, 32) log-probs of tokens drawn at random."""
    ids_BT = torch.randint(model.get_input_embeddings().num_embeddings, (2, 33), generator=torch.Generator())
    logits = model.eval()(input_ids=ids_BT, attention_mask=torch.ones_like(ids_BT)).logits
    return torch.log_softmax(logits[:, :-1], -1).gather(2, ids_BT[:, 1:, None])[..., 0]


def check_saved(found: Iterable[tuple[Path, str, bool]]) -> None:
    """ExportError for the exports among them that do not hold their policy."""
    if faults := [f"'{folder}' is kept, but {said}" for folder, said, holds in found if not holds]:
        raise ExportError(f"{'; '.join(faults)}. Do not use it: a checkpoint of the run holds the policy.")


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
