"""Policies as plain Hugging Face or PEFT folders with model cards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..data.run_files import ROLES_FILE
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
    written: list[Path] = []
    if not trainer.processes.main:
        return written
    for name in trainer.policies.weight_names:
        target = folder / inner_name(name)
        target.mkdir(parents=True, exist_ok=True)
        trainer.policies.export(name, target, state)
        trainer.processing_class.save_pretrained(target)
        (target / "README.md").write_text(_card(trainer, name))
        (target / ROLES_FILE).write_text(json.dumps({"roles": trainer.policies.shared_by(name)}) + "\n")
        written.append(target)
    return written


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
