"""Model cards: base model and licence, evaluation before and after, training, and code that loads it. One text for all
exported models and for uploads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..asking import generation_settings, sampling_of
from ..countdown import CountdownDomain, Problem
from ..data.jsonl import json_file
from ..data.run_files import ROLES_FILE, holds_model, numbered_folders
from ..evaluation.terminal import before_after_table
from ..tiny import embedded_name

_VERSION = version("countdown-selfplay")  # of the metadata: the package's own name would be a circle of imports
_EXAMPLE = Problem((3, 5, 7), 22)
_SHOWN = {"objective": "objective", "learning_rate": "learning rate", "beta": "KL coefficient"}
_MOVES = (
    "An answer is a sequence of moves. The code below samples one move; this plays a problem to its end:\n\n"
    "```bash\ncountdown-selfplay ask --model {place} 3 5 7 --target 22\n```"
)


def card(
    title: str,
    made: str,
    rows: Mapping[str, object],
    recorded: Mapping[str, Any],
    tags: Sequence[str],
    *,
    base: str,
    place: str,
    said: str = "",
    results: str = "",
    command: str | None = None,
    prompt: Any = None,
    sampling: Mapping[str, Any] | None = None,
    library: str = "transformers",
) -> str:
    """A model card. `made`: how, in a sentence; `rows`: of the table of settings, which is followed by `recorded`, the
    domain's own account; `said`: a paragraph behind it. `base`: the folder or hub id of the weights before training;
    `place`: of those after it. `results`: a table as text; `prompt`: one that the model knows, a text or a chat;
    `sampling`: how it is asked."""
    licence, embedded, on_hub = licence_of(base), embedded_name(base), is_hub_id(base)
    head = {"library_name": library, "pipeline_tag": "text-generation"}
    head |= {"license": licence} if licence else {}
    head |= {"base_model": base} if on_hub else {}
    recorded = dict(recorded)
    rules = recorded.pop("rules", None)
    rows = {**rows, **{name.replace("_", " "): value for name, value in recorded.items()}}
    named = (
        f"[{base}](https://huggingface.co/{base})" if on_hub else f"`{embedded or base}`" if base else "not recorded"
    )
    under = "" if rules is None else f" under these rules: `{rules}`"
    whose = f", embedded in countdown-selfplay {_VERSION}" if embedded else ""
    parts = [
        "---",
        *(f"{name}: {value}" for name, value in head.items()),
        "tags:",
        *(f"- {tag}" for tag in ("trl", "countdown-selfplay", *tags)),
        "---",
        f"# {title}\n",
        f"{made}\n",
        f"- Base model: {named}{whose}",
        f"- Licence: {licence or 'that of the base model'}\n",
        *([f"## Results\n\n{results}\n"] if results else []),
        "## Training\n\n| setting | value |\n|---|---|",
        *(f"| {name} | {value} |" for name, value in rows.items()),
        *(["", said] if said else []),
        *([f"\n```bash\n{command}\n```"] if command else []),
        f"\n## Use\n\n```python\n{snippet(place, prompt, sampling or {}, library)}\n```\n",
        f"Answers are judged by the verifier of the domain{under}.",
    ]
    return "\n".join(parts) + "\n"


def is_hub_id(model: str) -> bool:
    """Is it the name of a model on the hub, and neither of a folder nor of an embedded one?"""
    named = re.fullmatch(r"(?!runs/)\w[\w.-]*/[\w.-]+", model) is not None
    return named and embedded_name(model) is None and not Path(model).is_dir()


def snippet(place: str, prompt: Any, sampling: Mapping[str, Any], library: str) -> str:
    """Python that loads the model, and samples from it, as in training, if a prompt is known."""
    auto = "AutoPeftModelForCausalLM" if library == "peft" else "AutoModelForCausalLM"
    imports = [f"from peft import {auto}", "from transformers import AutoTokenizer"]
    lines = imports if library == "peft" else [f"from transformers import {auto}, AutoTokenizer"]
    lines += ["", f'model = {auto}.from_pretrained("{place}")']
    lines += [f'tokenizer = AutoTokenizer.from_pretrained("{place}")']
    if prompt is None:
        return "\n".join(lines)
    if isinstance(prompt, str):
        lines.append(f'inputs = tokenizer({prompt!r}, return_tensors="pt")')
    else:
        chat = "add_generation_prompt=True, return_dict=True"
        lines.append(f'inputs = tokenizer.apply_chat_template({prompt!r}, {chat}, return_tensors="pt")')
    # The tokenizer's template holds what the prompts were rendered with, and the model its end tokens.
    how = {n: v for n, v in generation_settings(sampling, [], 0).items() if not n.endswith("_token_id")}
    given = "".join(f", {name}={value!r}" for name, value in how.items() if value is not None)
    given += ", tokenizer=tokenizer" if "stop_strings" in how else ""
    lines.append(f"output = model.generate(**inputs{given})")
    lines.append('print(tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))')
    return "\n".join(lines)


def licence_of(base: str) -> str | None:
    """What the base model's own card says, if it is on this machine; the embedded models are Apache-2.0."""
    if not base:  # Path("") is the current folder
        return None
    if embedded_name(base) is not None:
        return "apache-2.0"
    readme: Any = Path(base) / "README.md"
    if not Path(base).is_dir():
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            readme = try_to_load_from_cache(base, "README.md")
        except HFValidationError:
            return None
    if not isinstance(readme, str | Path) or not Path(readme).is_file():
        return None
    head = Path(readme).read_text(encoding="utf-8", errors="replace").split("\n---", 1)[0]
    found = re.search(r"^license:\s*(\S+)\s*$", head, re.MULTILINE)
    return found[1] if found else None


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
        said=_MOVES.format(place=place or folder) if "prover" in roles and recorded.get("answers") == "moves" else "",
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
