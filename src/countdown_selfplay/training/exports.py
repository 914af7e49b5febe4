"""Exports of policies as Hugging Face or PEFT folders, and their model cards."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import ModelCard, ModelCardData, metadata_load, try_to_load_from_cache
from torch import nn
from yaml import YAMLError

from ..asking import generation_settings, sampling_of
from ..config import JointSelfPlayConfig
from ..config.recipes import spread
from ..countdown import CountdownDomain, Problem
from ..data.jsonl import json_file
from ..data.run_files import ROLES_FILE, holds_model, numbered_folders, write_atomically
from ..distributed.ddp import Engine
from ..distributed.processes import Processes
from ..errors import CountdownSelfPlayError, ExportError
from ..evaluation.terminal import before_after_table
from ..policies import inner_name
from ..policies.adapters import name_base, uncut
from ..policies.build import load_pretrained
from ..tiny import embedded_name
from .metrics_buffer import RunCounts

LARGE = 8 << 30
"""Bytes of weights above which an export is not loaded again for verification."""


@dataclass(eq=False)
class Exports:
    """Writer of the policies of a run as model folders."""

    args: JointSelfPlayConfig
    engine: Engine
    processes: Processes
    counts: RunCounts
    domain: Any
    proposer: Any
    """Proposer of the game, or None; a checkpoint includes the proposer's `files()`."""
    tokenizer: Any

    def __post_init__(self) -> None:
        self._bases: set[Path] = set()
        """Folders of frozen base weights that this run has written."""

    def write(self, folder: Path) -> list[Path]:
        """Write every set of weights, with tokenizer and model card, to `folder/<name>`; return the folders ([] on all
        processes but the main one). All processes call it, because weights may be sharded."""
        return self._written(folder, self.engine.full_state())

    def _written(self, folder: Path, state: Mapping[str, Any] | None) -> list[Path]:
        self.write_bases(folder, lambda: state)
        names = self.engine.policies.weight_names if self.processes.main else ()
        return [self._write(name, folder / inner_name(name), folder, state) for name in names]

    def write_last(self, folder: Path) -> list[tuple[Path, str, bool]]:
        """Write the exports and verify each by loading it; return (folder, fault or remark, usable) for each."""
        state = self.engine.full_state()
        names = self.engine.policies.weight_names
        pairs = zip(names, self._written(folder, state), strict=False)  # the main process writes
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

    def write_bases(self, folder: Path, full_state: Callable[[], Mapping[str, Any] | None]) -> None:
        """Write to `folder`, once in a run, the base weights of adapters whose base has no path or hub id. All
        processes call it. `full_state`: method of the engine, called only if there is a base to write."""
        policies = self.engine.policies
        beside = {name: policies.base_beside(name) for name in policies.weight_names}
        missing = {folder / base: name for name, base in beside.items() if base and folder / base not in self._bases}
        state = full_state() if missing else None
        self._bases.update(missing)
        if self.processes.main:
            for whole, name in missing.items():
                with _renamed(whole) as staged:
                    policies.export_base(name, staged, whole, state)

    def _write(self, name: str, target: Path, run: Path, state: Mapping[str, Any] | None) -> Path:
        """Write one set of weights to `target`. `run`: folder that holds bases without a path or hub id."""
        target.mkdir(parents=True, exist_ok=True)
        policies, args, domain = self.engine.policies, self.args, self.domain
        roles, origin = policies.shared_by(name), policies.origins.get(name, "")
        shown: dict[str, dict[str, Any]] = {}
        for role in roles:
            settings = args.all_roles[role]
            shown[role] = {setting: getattr(settings, setting) for setting in _SHOWN}
            shown[role]["sampling"] = sampling_of(args, settings, settings.stops(domain))
        card = {
            "roles": roles,
            "rounds": self.counts.rounds,
            "samples": {role: self.counts.samples.get(role, 0) for role in roles},
            "from": embedded_name(origin) or origin,  # the folder is on this machine alone
            "prompt": example_prompt(domain, args.all_roles[roles[0]].kind),
            "settings": shown,
        }
        # Written first, because set_run_aside of a later run recognizes the folder by this file.
        (target / ROLES_FILE).write_text(json.dumps(card) + "\n")
        policies.export(name, target, state)
        if base := policies.base_beside(name):
            name_base(target, str(run / base))
        self.tokenizer.save_pretrained(target)
        described = {"config": spread(args.to_dict()), "domain": domain.to_dict()}
        (target / "README.md").write_text(role_card(target, described), encoding="utf-8")
        return target

    def write_round(self, folder: Path) -> None:
        """Write every set of weights to `folder/<name>/round_<r>/model`, and the proposer's `files()` beside each
        `model`, as in Multimodal LLM Self-Play, appendix B. All processes call it."""
        state = self.engine.full_state()
        self.write_bases(folder, lambda: state)
        for name in self.engine.policies.weight_names if self.processes.main else ():
            with _renamed(folder / inner_name(name) / f"round_{self.counts.rounds}") as staged:
                self._write(name, staged / "model", folder, state)
                self.write_proposer_files(staged)

    def write_proposer_files(self, folder: Path, run: bool = False) -> None:
        """Write the proposer's `files()`, or with `run` its `run_files()`, to `folder` as JSON."""
        if self.proposer is not None:
            for name, content in (self.proposer.run_files() if run else self.proposer.files()).items():
                write_atomically(folder / name, json.dumps(content) + "\n")


@contextmanager
def _renamed(whole: Path) -> Iterator[Path]:
    """Yield a temporary path and rename it to `whole` after the block, so that `whole` is complete or absent."""
    staged = whole.with_name(f".{whole.name}.incomplete")
    for leftover in (staged, whole):  # left by an interrupted process or an abandoned round
        shutil.rmtree(leftover, ignore_errors=True)
    yield staged
    staged.rename(whole)


def fault_of(trained: Callable[[], nn.Module], folder: Path, trust_remote_code: bool) -> str:
    """Describe the fault of the model in `folder`; "" if its log-probs equal those of the model that `trained` returns
    up to rounding, both in float32 on the CPU."""
    with torch.random.fork_rng(devices=[]):  # PEFT draws an adapter's values before it reads them
        expected = scores(trained())
        try:
            how = {"dtype": "float32", "trust_remote_code": trust_remote_code}
            logits = scores(load_pretrained(str(folder), how, False))
        except CountdownSelfPlayError as error:
            return f"it cannot be loaded again: {error}"
    if torch.allclose(logits, expected, rtol=1e-4, atol=1e-4):
        return ""
    gap = float((logits - expected).abs().max())
    return f"it is not the policy that was trained: its log-probs differ by up to {gap:.2g} nats a token"


@torch.no_grad()
def scores(model: Any) -> torch.Tensor:
    """Return the log-probs, (2, 32), under `model` of tokens drawn with a fixed seed."""
    ids_BT = torch.randint(model.get_input_embeddings().num_embeddings, (2, 33), generator=torch.Generator())
    logits = model.eval()(input_ids=ids_BT, attention_mask=torch.ones_like(ids_BT)).logits
    return torch.log_softmax(logits[:, :-1], -1).gather(2, ids_BT[:, 1:, None])[..., 0]


def check_saved(checked: Iterable[tuple[Path, str, bool]]) -> None:
    """Raise ExportError if an export is not usable. `checked`: result of `write_last`."""
    if faults := [f"'{folder}' is kept, but {fault}" for folder, fault, usable in checked if not usable]:
        raise ExportError(f"{'; '.join(faults)}. Do not use it: a checkpoint of the run holds the policy.")


def write_cards(run: Path) -> None:
    """Rewrite the model card of each role in the run folder `run`, with the results in evaluation.json if any."""
    path = run / "evaluation.json"
    for folder in exported_roles(run):
        described = json_file(run / "run.json", config=dict, domain=dict)
        text = role_card(folder, described, json_file(path) if path.exists() else None)
        write_atomically(folder / "README.md", text)


_VERSION = version("countdown-selfplay")  # of the metadata: the package's own name would be a circle of imports
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
    """Render a model card. `made`: sentence on the training; `rows`: table of settings; `recorded`: the domain's
    `to_dict()`; `base`: folder or hub id of the weights before training; `prompt`: an example; `sampling`: the role's
    sampling settings; `parts`: further variables of model_card.md, such as `place` (location of the weights)."""
    head = ModelCardData(
        library_name=library,
        pipeline_tag="text-generation",
        license=licence_of(base),
        base_model=base if is_hub_id(base) else None,
        tags=["trl", "countdown-selfplay", *tags],
    )
    # The tokenizer's template renders the prompts of training, and the model has its end tokens.
    how = {n: v for n, v in generation_settings(sampling or {}, [], 0).items() if not n.endswith("_token_id")}
    settings = "".join(f", {name}={value!r}" for name, value in how.items() if value is not None)
    settings += ", tokenizer=tokenizer" if "stop_strings" in how else ""
    recorded = {name.replace("_", " "): value for name, value in recorded.items()}
    parts |= {"title": title, "made": made, "rules": recorded.pop("rules", None), "rows": {**rows, **recorded}}
    parts |= {"base": base, "embedded": embedded_name(base), "version": _VERSION}
    parts |= {"prompt": prompt, "literal": repr(prompt), "settings": settings}
    return ModelCard.from_template(head, str(Path(__file__).with_name("model_card.md")), **parts).content + "\n"


def is_hub_id(model: str) -> bool:
    """Return whether `model` has the form of a hub id and is neither a folder nor an embedded model."""
    named = re.fullmatch(r"(?!runs/)\w[\w.-]*/[\w.-]+", model) is not None
    return named and embedded_name(model) is None and not Path(model).is_dir()


def licence_of(base: str) -> str | None:
    """Return the license that the local model card of `base` names, or None; "apache-2.0" for an embedded model."""
    if not base:  # Path("") is the current folder
        return None
    if embedded_name(base) is not None:
        return "apache-2.0"
    try:
        local = Path(base).is_dir()
        readme: Any = Path(base) / "README.md" if local else try_to_load_from_cache(base, "README.md")
        licence = (metadata_load(readme) or {}).get("license") if isinstance(readme, str | Path) else None
    except (OSError, ValueError, YAMLError):  # no name of a repository, no card, or a damaged one
        return None
    return licence if isinstance(licence, str) else None


def example_prompt(domain: Any, kind: str) -> Any:
    """Return a Countdown prompt for a prover or a conjecturer, or None for other roles and domains."""
    if not isinstance(domain, CountdownDomain) or kind not in ("prover", "conjecturer"):
        return None
    if kind == "conjecturer":
        request: dict[str, Any] = domain.asks[0]
        return domain.propose_row(**request)["prompt"]
    example = Problem((3, 5, 7), 22)
    return domain.prove_row(example if domain.in_range(example) else domain.longest)["prompt"]


def exported_roles(run: Path) -> list[Path]:
    """Return the folders of a run's trained roles; in an iterated run the folder of each role's last iteration."""
    if folders := [path.parent for path in sorted(run.glob(f"*/{ROLES_FILE}")) if holds_model(path.parent)]:
        return folders
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
    """Render the model card of the role in `folder`. `described`: contents of run.json; `evaluation`: those of
    evaluation.json; `place`: future location of the weights, such as a repository id; `base`: the weights before
    training ("": as in the run)."""
    config, recorded = described["config"], described["domain"]
    description = json_file(folder / ROLES_FILE, roles=list) if (folder / ROLES_FILE).exists() else {}
    roles, settings = description.get("roles") or [folder.name], description.get("settings", {})
    rows: dict[str, object] = {"game": config.get("game"), "policy sharing": config.get("policy_sharing", "full")}
    rows["seed"] = config.get("seed")
    for role in roles:
        rows |= {f"{role}: {words}": settings[role][name] for name, words in _SHOWN.items() if role in settings}
        if role in description.get("samples", {}):
            rows[f"{role}: samples"] = description["samples"][role]
    if "conjecturer" in roles:
        rows["conjecturer reward"] = config.get("conjecturer_reward")
    if "prover" in roles:
        rows["anchor fraction"] = config.get("anchor_fraction")
    start = described.get("start", "")
    base = base or description.get("from") or (start.get(folder.name, "") if isinstance(start, Mapping) else start)
    together = " and ".join(roles)
    domain, by = recorded.get("domain", config.get("domain")), f"trained with countdown-selfplay {_VERSION}"
    made = f"The {together} of an iterated self-play run on {domain}, {by}."
    if "rounds" in description:
        run = f"a joint conjecturer/prover run on {domain}, after {description['rounds']} rounds"
        made = f"The {together} of {run}, {by} on TRL's GRPOTrainer."
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
        prompt=description.get("prompt"),
        sampling=next((s.get("sampling", {}) for s in settings.values()), {}),
        library="peft" if (folder / "adapter_config.json").exists() else "transformers",
    )


def results_of(evaluation: Mapping[str, Any], roles: Sequence[str]) -> str:
    """Return a table, in a Markdown code block, of `roles` before and after training, below a line with the numbers of
    problems and answers; "" if no role was evaluated."""
    lines = before_after_table(dict(evaluation)).splitlines()
    shown = [line for line in lines[2:] if line.split(" ")[0].removesuffix(",") in roles]
    if not shown:
        return ""
    after = evaluation["after"]
    result = after.get("prover") or next(iter(after.values()))
    size = "held-out problems"
    if "problems" in result:
        size = f"{result['problems']} {size} x {result['n']} answers"
    heat = result.get("setting", {}).get("temperature")
    how = "" if heat is None else f", temperature {heat:g}"
    sizes = f"{size}{how}; 95% intervals, differences paired where there are problems.\n"
    return "\n".join([sizes, "```", *lines[:2], *shown, "```"])
