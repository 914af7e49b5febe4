"""Model cards: base model and licence, evaluation before and after, training, and code that loads it. One text for all
exported models and for uploads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData, metadata_load, try_to_load_from_cache
from yaml import YAMLError

from ..asking import generation_settings, sampling_of
from ..countdown import CountdownDomain, Problem
from ..data.jsonl import json_file
from ..data.run_files import ROLES_FILE, holds_model, numbered_folders
from ..evaluation.terminal import before_after_table
from ..tiny import embedded_name

_VERSION = version("countdown-selfplay")  # of the metadata: the package's own name would be a circle of imports
_EXAMPLE = Problem((3, 5, 7), 22)
_SHOWN = {"objective": "objective", "learning_rate": "learning rate", "beta": "KL coefficient"}


def card(
    title: str,
    made: str,
    rows: Mapping[str, object],
    recorded: Mapping[str, Any],
    tags: Sequence[str],
    *,
    base: str,
    prompt: Any = None,
    sampling: Mapping[str, Any] | None = None,
    library: str = "transformers",
    **parts: Any,
) -> str:
    """A model card. `made`: how, in a sentence; `rows`: of the table of settings, which is followed by `recorded`, the
    domain's own account. `base`: the folder or hub id of the weights before training. `prompt`: one that the model
    knows, a text or a chat; `sampling`: how it is asked. `parts` of model_card.md: `place` of the weights; `results`,
    a table as text; `said`, a paragraph behind the settings; `moves`: are answers sequences of them? `command`."""
    head = ModelCardData(
        library_name=library,
        pipeline_tag="text-generation",
        license=licence_of(base),
        base_model=base if is_hub_id(base) else None,
        tags=["trl", "countdown-selfplay", *tags],
    )
    # The tokenizer's template holds what the prompts were rendered with, and the model its end tokens.
    how = {n: v for n, v in generation_settings(sampling or {}, [], 0).items() if not n.endswith("_token_id")}
    settings = "".join(f", {name}={value!r}" for name, value in how.items() if value is not None)
    settings += ", tokenizer=tokenizer" if "stop_strings" in how else ""
    recorded = {name.replace("_", " "): value for name, value in recorded.items()}
    parts |= {"title": title, "made": made, "rules": recorded.pop("rules", None), "rows": {**rows, **recorded}}
    parts |= {"base": base, "embedded": embedded_name(base), "version": _VERSION}
    parts |= {"prompt": prompt, "literal": repr(prompt), "settings": settings}
    return ModelCard.from_template(head, str(Path(__file__).with_name("model_card.md")), **parts).content + "\n"


def is_hub_id(model: str) -> bool:
    """Is it the name of a model on the hub, and neither of a folder nor of an embedded one?"""
    named = re.fullmatch(r"(?!runs/)\w[\w.-]*/[\w.-]+", model) is not None
    return named and embedded_name(model) is None and not Path(model).is_dir()


def licence_of(base: str) -> str | None:
    """What the base model's own card says, if it is on this machine; the embedded models are Apache-2.0."""
    if not base:  # Path("") is the current folder
        return None
    if embedded_name(base) is not None:
        return "apache-2.0"
    readme: Any = Path(base) / "README.md"
    try:
        if not Path(base).is_dir():
            readme = try_to_load_from_cache(base, "README.md")
        said = (metadata_load(readme) or {}).get("license") if isinstance(readme, str | Path) else None
    except (OSError, ValueError, YAMLError):  # no name of a repository, no card, or a damaged one
        return None
    return said if isinstance(said, str) else None


def example_prompt(domain: Any, kind: str) -> Any:
    """A prompt of Countdown that a prover or a conjecturer knows; None for other roles and domains."""
    if not isinstance(domain, CountdownDomain) or kind not in ("prover", "conjecturer"):
        return None
    if kind == "conjecturer":
        asked: dict[str, Any] = domain.asks[0]
        return domain.propose_row(**asked)["prompt"]
    return domain.prove_row(_EXAMPLE if domain.in_range(_EXAMPLE) else domain.longest)["prompt"]


def settings_of(role: Any, args: Any, domain: Any) -> dict[str, Any]:
    """Of a role's settings those that its card shows, and how it is asked."""
    return {name: getattr(role, name) for name in _SHOWN} | {"sampling": sampling_of(args, role, role.stops(domain))}


def exported_roles(run: Path) -> list[Path]:
    """The folders of a run's trained roles: those of a joint run, or of the last iteration of each role."""
    found = [path.parent for path in sorted(run.glob(f"*/{ROLES_FILE}")) if holds_model(path.parent)]
    if found:
        return found
    last: dict[str, Path] = {}
    for _, iteration in numbered_folders(run, "iteration"):
        last |= {path.name: path for path in iteration.iterdir() if holds_model(path)}
    return [last[role] for role in sorted(last)]


def role_card(
    folder: Path,
    described: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None = None,
    place: str | None = None,
    base: str = "",
) -> str:
    """The card of a trained role. `folder`: of its weights; `described`: run.json, or what it is going to hold;
    `evaluation`: evaluation.json; `place`: where the weights will lie, such as a repository's id (None: `folder`);
    `base`: what they started from ("": what the run says)."""
    config, recorded = described["config"], described["domain"]
    said = json_file(folder / ROLES_FILE, roles=list) if (folder / ROLES_FILE).exists() else {}
    roles, settings = said.get("roles") or [folder.name], said.get("settings", {})
    rows: dict[str, object] = {"game": config.get("game"), "policy sharing": config.get("policy_sharing", "full")}
    rows["seed"] = config.get("seed")
    for role in roles:
        rows |= {f"{role}: {words}": settings[role][name] for name, words in _SHOWN.items() if role in settings}
        if role in said.get("samples", {}):
            rows[f"{role}: samples"] = said["samples"][role]
    if "conjecturer" in roles:
        rows["conjecturer reward"] = config.get("conjecturer_reward")
    if "prover" in roles:
        rows["anchor fraction"] = config.get("anchor_fraction")
    start = described.get("start", "")
    base = base or said.get("from") or (start.get(folder.name, "") if isinstance(start, Mapping) else start)
    together = " and ".join(roles)
    domain, by = recorded.get("domain", config.get("domain")), f"trained with countdown-selfplay {_VERSION}"
    made = f"The {together} of an iterated self-play run on {domain}, {by}."
    if "rounds" in said:
        made = (
            f"The {together} of a joint conjecturer/prover run on {domain}, after {said['rounds']} rounds, {by} on "
            "TRL's GRPOTrainer."
        )
    return card(
        f"countdown-selfplay {together}",
        made,
        {name: value for name, value in rows.items() if value is not None},
        recorded,
        ("self-play",),
        base=base,
        place=place or str(folder),
        moves="prover" in roles and recorded.get("answers") == "moves",
        results=results_of(evaluation, roles) if evaluation else "",
        command=described.get("command"),
        prompt=said.get("prompt"),
        sampling=next((s.get("sampling", {}) for s in settings.values()), {}),
        library="peft" if (folder / "adapter_config.json").exists() else "transformers",
    )


def results_of(evaluation: Mapping[str, Any], roles: Sequence[str]) -> str:
    """The table before and after training of those roles, with what it was measured on; "" without one."""
    lines = before_after_table(dict(evaluation)).splitlines()
    own = [line for line in lines[2:] if line.split(" ")[0].removesuffix(",") in roles]
    if not own:
        return ""
    after = evaluation["after"]
    found = after.get("prover") or next(iter(after.values()))
    size = "held-out problems"
    if "problems" in found:
        size = f"{found['problems']} {size} x {found['n']} answers"
    heat = found.get("setting", {}).get("temperature")
    how = "" if heat is None else f", temperature {heat:g}"
    said = f"{size}{how}; 95% intervals, differences paired where there are problems.\n"
    return "\n".join([said, "```", *lines[:2], *own, "```"])
