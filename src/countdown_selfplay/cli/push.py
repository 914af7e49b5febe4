"""`countdown-selfplay push`: upload the trained roles of a run to the Hugging Face Hub, with cards and report."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..data.jsonl import json_file, json_shape
from ..data.run_files import holds_model, read_phases
from ..errors import ConfigError
from ..packages import CALLED, absent_package
from ..tiny import embedded_name
from .plain import parser_of, underscored

EPILOG = """\
examples: countdown-selfplay push runs/tiny-joint --dry_run
          countdown-selfplay push runs/tiny-joint --repo_id me/countdown --private

Each role becomes a separate repository, REPO_ID-ROLE (default: your name and that of the run's folder). Its card
holds base model, licence, the table before and after, the settings, the command and code that loads it. An adapter
goes up alone if its base has a name on the hub, and else merged into the base. Paths of this machine are cut down to
their last part. What goes up is first written to RUN/push, and a dry run ends there. Log in with `hf auth login`."""

FOLDER = "push"

_NOT_PUSHED = (
    *(FOLDER, "README.md", ".*", "plots", "*.jsonl", "training_args.bin"),
    *("checkpoint-*", "round_*", "previous-*", "abandoned-*"),  # other weights: of rounds, of earlier runs
    *("runs", "wandb"),  # logs of trackers
)
"""Patterns of files and folders beside the weights that are no part of the model."""


def main(argv: list[str]) -> int:
    """Write the folders, and upload them unless it is a dry run; 0."""
    parser = parser_of("push", EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--repo_id", metavar="NAME", help="repository, such as me/countdown; the role is added")
    parser.add_argument("--base_model", metavar="ID", help="hub id of the weights that the run started from")
    parser.add_argument("--private", action="store_true", help="make the repositories private")
    parser.add_argument("--dry_run", action="store_true", help="write RUN/push and upload nothing")
    options = parser.parse_args([underscored(argument) for argument in argv])
    described, roles = finished_run(options.run)
    name = options.repo_id or options.run.resolve().name
    check_name("repo_id", name)
    if options.base_model is not None:
        check_name("base_model", options.base_model)
    token = None if options.dry_run else token_or_refuse(options.run)
    if token is not None and "/" not in name:
        from huggingface_hub import HfApi

        own = _asked(lambda: HfApi(token=token).whoami()["name"])
        name = f"{own}/{name}"
    folders = {}
    for role in roles:
        repo = name if role == options.run else f"{name}-{role.name}"
        folders[repo] = written(options.run, role, described, repo, options.base_model or "")
        print(f"Wrote {folders[repo]} for {repo}")
    if token is not None:
        for repo, folder in folders.items():
            print(f"Uploaded {uploaded(repo, folder, options.private, token)}")
    return 0


def finished_run(run: Path) -> tuple[dict[str, Any], list[Path]]:
    """run.json, and the folders of the trained roles; of a warm start the run itself. ConfigError without them."""
    from ..training.cards import exported_roles

    if not (run / "run.json").is_file():
        inside = sorted(path.parent for path in run.glob("*/run.json")) if run.is_dir() else []
        hint = f"; in it there are {', '.join(map(str, inside[:4]))}" if inside else ""
        raise ConfigError(f"'{run}' is not the folder of a run (it has no run.json){hint}.")
    described = json_file(run / "run.json", config=dict, domain=dict)
    alone = holds_model(run)  # a warm start writes its card last
    roles = exported_roles(run) if not alone else [run] if (run / "README.md").is_file() else []
    if left := to_be_trained(run, described["config"]):
        raise ConfigError(
            f"The run in '{run}' is not finished: its last iteration has not trained {', '.join(left)}. Give the "
            "command that began it once more; it goes on."
        )
    if not roles:
        raise ConfigError(
            f"The run in '{run}' is not finished: it has exported no role. Play it to its end with the command that "
            "began it and --resume_from_checkpoint true; after a run in Python, trainer.save_model() writes "
            "the roles."
        )
    return described, roles


def to_be_trained(run: Path, config: Mapping[str, Any]) -> list[str]:
    """The roles of an iterated run that its last iteration has not trained yet; [] of another run."""
    log = run / "iterations.jsonl"
    if not log.exists():
        return []
    done = {line.get("role") for line in read_phases(log) if line["iteration"] >= config.get("iterations", 0)}
    return [role for role in config.get("role_training", ()) if role not in done]


def written(run: Path, role: Path, described: dict[str, Any], repo: str, base: str = "") -> Path:
    """The folder that goes up for a role: its files, a card that names the repository, evaluation and report. `base`:
    hub id of what it started from, "" for what the run says."""
    from ..training.cards import results_of, role_card

    target = run / FOLDER / (role.name if role != run else "model")
    shutil.rmtree(target, ignore_errors=True)
    beside = shutil.ignore_patterns(*_NOT_PUSHED)
    shutil.copytree(role, target, ignore=beside)
    if (role / _ADAPTER[0]).is_file():
        base = place_adapter(role, target, base)
    path = run / "evaluation.json"
    evaluation: dict[str, Any] | None = None
    if path.exists() and role != run:
        with json_shape(path, "the measurements before and after training", "move it away to push without") as found:
            results_of(found, [role.name])
        evaluation = found
    if role == run:
        here = described["config"].get("output_dir")  # as the snippet of the card names it
        text = (run / "README.md").read_text(encoding="utf-8").replace(f'"{here}"', f'"{repo}"')
        if base and "\nbase_model:" not in text:
            text = text.replace("\ntags:\n", f"\nbase_model: {base}\ntags:\n", 1)
    else:
        text = role_card(target, described, evaluation, repo, base)
    (target / "README.md").write_text(text, encoding="utf-8")
    report = run / "report.html"
    drawn = (run / "metrics.jsonl").exists() and role != run and absent_package(CALLED["write_report"]) is None
    if drawn and not report.exists():
        from ..training.callbacks.run_folder import report_of

        report_of(run)
    for file in (run / "run.json", path, report):
        if file.exists():
            shutil.copy(file, target)
    for file in (*target.rglob("*.json"), *target.rglob("*.md"), *target.rglob("*.html")):
        said = file.read_text(encoding="utf-8")
        if (text := without_paths(said)) != said:
            file.write_text(text, encoding="utf-8")
    return target


_ADAPTER = ("adapter_config.json", "adapter_model*")


def place_adapter(role: Path, target: Path, base: str) -> str:
    """Let the copy in `target` of an adapter load anywhere: it names its base on the hub, or is merged into one that
    has no name there. `base`: that name, "" for what the adapter says; the name, or ""."""
    from ..policies.adapters import base_of, name_base
    from ..policies.build import load_pretrained
    from ..training.cards import is_hub_id

    own, _ = base_of(role / _ADAPTER[0])
    if base:
        name_base(target, base)
        return base
    if is_hub_id(own):
        return own
    said = embedded_name(own) or own
    print(f"'{said}' is not on the hub: {target.name} goes up as whole weights; --base_model names a base that is.")
    model = load_pretrained(str(role), {"dtype": "auto"}, told=False)
    for pattern in _ADAPTER:
        for file in target.glob(pattern):
            file.unlink()
    model.save_pretrained(target)
    return ""


_PATH = re.compile(r"""(?<=")/[^"\n]+(?=")|(?<=["'`\s=(>\[])/[^\s"'`<>()\[\],]+""")


def without_paths(text: str) -> str:
    """`text` with each file and folder of this machine by its last part, an embedded model by its name."""

    def short(found: re.Match[str]) -> str:
        path = Path(found[0])
        here = len(path.parts) > 2 and Path(*path.parts[:2]).is_dir()
        return (embedded_name(found[0]) or path.name) if here else found[0]

    return _PATH.sub(short, text)


def check_name(option: str, name: str) -> None:
    """ConfigError for what is no name of a repository."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(f"`--{option}` ({name}) cannot be a repository: {str(error).splitlines()[0]}") from None


def token_or_refuse(run: Path) -> str:
    """The token of this machine. ConfigError without one."""
    from huggingface_hub import get_token
    from huggingface_hub.constants import HF_HUB_OFFLINE

    token = get_token()
    if token is None or HF_HUB_OFFLINE:
        why = "HF_HUB_OFFLINE is set" if HF_HUB_OFFLINE else "no token is stored here; log in with `hf auth login`"
        raise ConfigError(
            f"Nothing was uploaded: {why}. `countdown-selfplay push {run} --dry_run` writes the folders."
        )
    return token


def uploaded(repo: str, folder: Path, private: bool, token: str) -> str:
    """Upload the folder; the repository's address."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    kept = f"; the files for the upload are in '{folder}'"
    url = _asked(lambda: api.create_repo(repo, private=private, exist_ok=True), kept)
    _asked(lambda: api.upload_folder(repo_id=repo, folder_path=str(folder)), kept)
    return str(url)


def _asked(call: Callable[[], Any], kept: str = "") -> Any:
    """The hub's answer; ConfigError for an error of its client, or of the library that speaks HTTP for it."""
    try:
        return call()
    except Exception as error:
        if not isinstance(error, OSError) and not type(error).__module__.startswith(_CLIENTS):
            raise
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise ConfigError(f"The hub refused or was out of reach: {said}{kept}.") from None


_CLIENTS = ("huggingface_hub", "httpx", "httpcore", "requests", "urllib3")
"""How the names of their modules begin: huggingface_hub 2 speaks HTTP with httpx2 and httpcore2."""
