"""Policies as plain Hugging Face or PEFT folders with model cards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..data.run_files import ROLES_FILE, write_atomically
from ..domains import name_of
from ..policies import inner_name
from .host import Host

_CARD = """---
library_name: {library}
{pipeline}tags:
- trl
- countdown-selfplay
{tags}
---
# {title}

{made}

| setting | value |
|---|---|
{rows}
{said}
Answers are judged by the verifier of the domain{rules}.
"""


def card(
    title: str,
    made: str,
    rows: Mapping[str, object],
    domain: Any,
    tags: Sequence[str],
    said: str = "",
    library: str = "transformers",
) -> str:
    """A model card. `made`: how, in a sentence; `rows`: of the table of settings, which is followed by what the domain
    records; `said`: a paragraph behind it."""
    recorded = domain.to_dict()
    rules = recorded.pop("rules", None)
    rows = {**rows, **{name.replace("_", " "): value for name, value in recorded.items()}}
    return _CARD.format(
        library=library,
        pipeline="" if "self-play" in tags else "pipeline_tag: text-generation\n",
        tags="\n".join(f"- {tag}" for tag in tags),
        title=title,
        made=made,
        rows="\n".join(f"| {name} | {value} |" for name, value in rows.items()),
        said=f"\n{said}\n" if said else "",
        rules="" if rules is None else f" under these rules: `{rules}`",
    )


def export_policies(trainer: Host, folder: Path) -> list[Path]:
    """Write every set of weights to `folder/<name>` with tokenizer and model card. All processes call it, for their
    weights may have to be gathered; the main one writes and returns the folders."""
    state = trainer.engine.full_state(trainer.model_wrapped)
    if not trainer.processes.main:
        return []
    return [_export(trainer, name, folder / inner_name(name), state) for name in trainer.policies.weight_names]


def _export(trainer: Host, name: str, target: Path, state: Mapping[str, Any] | None) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    roles = {"roles": trainer.policies.shared_by(name)}  # first: a later run knows the folder by it (set_run_aside)
    (target / ROLES_FILE).write_text(json.dumps(roles) + "\n")
    trainer.policies.export(name, target, state)
    trainer.processing_class.save_pretrained(target)
    (target / "README.md").write_text(_card(trainer, name))
    return target


def export_round(trainer: Host, folder: Path) -> None:
    """Write every set of weights to `folder/<name>/round_<r>/model`, with what the proposer keeps for people beside it
    (tier_config.json): the layout of seed 000, appendix B. A round is there whole or not at all. All processes call
    it."""
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


def _card(trainer: Host, name: str) -> str:
    roles = trainer.policies.shared_by(name)
    rows: dict[str, object] = {"policy sharing": trainer.args.policy_sharing, "seed": trainer.args.seed}
    for role in roles:
        s = trainer.roles[role]
        rows |= {
            f"{role}: objective": s.objective,
            f"{role}: learning rate": s.learning_rate,
            f"{role}: KL coefficient": s.beta,
            f"{role}: samples": trainer.frame.samples.get(role, 0),
        }
    if "conjecturer" in roles:
        rows["conjecturer reward"] = trainer.args.conjecturer_reward
    if "prover" in roles:
        rows["anchor fraction"] = trainer.args.anchor_fraction
    together = " and ".join(roles)
    return card(
        f"countdown-selfplay {together}",
        f"The {together} of a joint conjecturer/prover run on {name_of(trainer.domain)}, after "
        f"{trainer.frame.rounds} rounds, trained with\ncountdown-selfplay {__version__} on TRL's GRPOTrainer.",
        rows,
        trainer.domain,
        ("self-play",),
        library="peft" if trainer.args.policy_sharing == "lora" else "transformers",
    )
