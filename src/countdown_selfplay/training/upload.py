"""Upload of a run's trained roles to the Hugging Face Hub."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, metadata_load, metadata_save, upload_folder
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from ..data.jsonl import json_file, json_shape
from ..data.run_files import check_run, holds_model, read_phases
from ..errors import ConfigError
from ..packages import CALLED, absent_package
from ..policies.adapters import base_of, name_base
from ..policies.build import load_pretrained
from ..tiny import embedded_name
from .callbacks.run_folder import report_of
from .exports import exported_roles, is_hub_id, results_of, role_card

FOLDER = "push"

_NOT_PUSHED = (
    *(FOLDER, "README.md", ".*", "plots", "*.jsonl", "training_args.bin"),
    *("checkpoint-*", "round_*", "previous-*", "abandoned-*"),  # other weights: rounds, earlier runs
    *("runs", "wandb"),  # logs of trackers
)
"""Patterns of files and folders beside the weights that are not part of the model."""


def push(
    run: str | Path,
    repo_id: str | None = None,
    base_model: str | None = None,
    private: bool | None = None,
    dry_run: bool = False,
    token: str | None = None,
    **commit: Any,
) -> list[str]:
    """Write each trained role of the folder `run` to push/<role> and, unless `dry_run`, upload it to the repository
    `<repo_id>-<role>` (the model of a warm start: to `<repo_id>`); return the repositories' ids. `repo_id`: default is
    the folder's name under the token's owner; `base_model`: hub id of the weights before training; `token`: default is
    that of `hf auth login`; `commit`: arguments of HfApi.upload_folder, such as `revision`."""
    if unknown := sorted(set(commit) - set(inspect.signature(upload_folder).parameters)):
        raise ConfigError(f"push_to_hub does not take {', '.join(unknown)}; it takes those of HfApi.upload_folder.")
    run, api = Path(run), HfApi(token=token)
    described, roles = finished_run(run)
    name = repo_id or run.resolve().name
    for option, value in (("repo_id", name), ("base_model", base_model)):
        try:
            validate_repo_id(value or name)
        except HFValidationError as error:
            raise ConfigError(f"`{option}` ({value}) cannot be a repository: {str(error).splitlines()[0]}") from None
    if not dry_run:  # also checks the token, before anything is written
        with hub_errors("; a dry run only writes the folders"):
            user = api.whoami()["name"]
        name = name if "/" in name else f"{user}/{name}"
    folders = {}
    for role in roles:
        repo = name if role == run else f"{name}-{role.name}"
        folders[repo] = written(run, role, described, repo, base_model or "")
        print(f"Wrote {folders[repo]} for {repo}")
    for repo, folder in folders.items() if not dry_run else ():
        with hub_errors(f"; the files for the upload are in '{folder}'"):
            url = api.create_repo(repo, private=private, exist_ok=True)
            if commit.get("revision"):
                api.create_branch(repo, branch=commit["revision"], exist_ok=True)
            api.upload_folder(repo_id=repo, folder_path=str(folder), **commit)
        print(f"Uploaded {url}")
    return list(folders)


def push_trained(args: Any, **settings: Any) -> list[str]:
    """Push the run of a trainer. `settings`: arguments of `push`; hub settings of `args` are defaults."""
    of_config = {"repo_id": args.hub_model_id, "private": args.hub_private_repo, "token": args.hub_token}
    return push(args.output_dir, **{**of_config, "revision": args.hub_revision, **settings})


def finished_run(run: Path) -> tuple[dict[str, Any], list[Path]]:
    """Return run.json as a dict and the folders of the trained roles. Raises ConfigError for an unfinished run."""
    check_run(run)
    described = json_file(run / "run.json", config=dict, domain=dict)
    alone = holds_model(run)  # a warm start writes its card last
    roles = exported_roles(run) if not alone else [run] if (run / "README.md").is_file() else []
    left, log = [], run / "iterations.jsonl"
    if log.exists():  # an iterated run: its last iteration trains every role
        config = described["config"]
        trained = {line.get("role") for line in read_phases(log) if line["iteration"] >= config.get("iterations", 0)}
        left = [role for role in config.get("role_training", ()) if role not in trained]
    if left or not roles:
        lacks = f"its last iteration has not trained {', '.join(left)}" if left else "it has exported no role"
        raise ConfigError(
            f"The run in '{run}' is not finished: {lacks}. Give the command that began it once more (joint: with "
            "--resume_from_checkpoint true); after a run in Python, trainer.save_model() writes the roles."
        )
    return described, roles


def written(run: Path, role: Path, described: dict[str, Any], repo: str, base: str = "") -> Path:
    """Write the folder to upload for a role (weights, model card, evaluation, report); return its path. `described`:
    contents of run.json; `repo`: repository id; `base`: hub id of the weights before training, "" for the run's."""
    target = run / FOLDER / (role.name if role != run else "model")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(role, target, ignore=shutil.ignore_patterns(*_NOT_PUSHED))
    if (role / _ADAPTER[0]).is_file():
        base = place_adapter(role, target, base)
    path, report, readme = run / "evaluation.json", run / "report.html", target / "README.md"
    if role == run:
        here = described["config"].get("output_dir")  # as the snippet of the card names it
        text = (run / "README.md").read_text(encoding="utf-8").replace(f'"{here}"', f'"{repo}"')
        readme.write_text(text, encoding="utf-8")
        if base:
            metadata_save(readme, {"base_model": base} | (metadata_load(readme) or {}))
    else:
        measured: dict[str, Any] | None = None
        if path.exists():
            content = "the measurements before and after training"
            with json_shape(path, content, "move it away to push without") as measured:
                results_of(measured, [role.name])
        readme.write_text(role_card(target, described, measured, repo, base), encoding="utf-8")
        drawn = (run / "metrics.jsonl").exists() and absent_package(CALLED["write_report"]) is None
        if drawn and not report.exists():
            report_of(run)
    for file in (run / "run.json", path, report):
        if file.exists():
            shutil.copy(file, target)
    for file in (*target.rglob("*.json"), *target.rglob("*.md"), *target.rglob("*.html")):
        file.write_text(without_paths(file.read_text(encoding="utf-8")), encoding="utf-8")
    return target


_ADAPTER = ("adapter_config.json", "adapter_model*")


def place_adapter(role: Path, target: Path, base: str) -> str:
    """Make the adapter in `target` loadable elsewhere: name its base by hub id, or replace it by whole weights if the
    base is not on the hub. `base`: hub id ("": that in the adapter). Returns the hub id, or "" for whole weights."""
    source, _ = base_of(role / _ADAPTER[0])
    if base:
        name_base(target, base)
        return base
    if is_hub_id(source):
        return source
    hub_id = embedded_name(source) or source
    print(f"'{hub_id}' is not on the hub: {target.name} goes up as whole weights; --base_model names a base that is.")
    model = load_pretrained(str(role), {"dtype": "auto"}, show=False)
    for pattern in _ADAPTER:
        for file in target.glob(pattern):
            file.unlink()
    model.save_pretrained(target)
    return ""


_PATH = re.compile(r"""(?<=")/[^"\n]+(?=")|(?<=["'`\s=(>\[])/[^\s"'`<>()\[\],]+""")


def without_paths(text: str) -> str:
    """Replace each path of this machine in `text` by its last part, or by the name of an embedded model."""

    def short(match: re.Match[str]) -> str:
        path = Path(match[0])
        here = len(path.parts) > 2 and Path(*path.parts[:2]).is_dir()
        return (embedded_name(match[0]) or path.name) if here else match[0]

    return _PATH.sub(short, text)


@contextmanager
def hub_errors(kept: str = "") -> Iterator[None]:
    """Convert errors of the hub's client, its HTTP library or the system to ConfigError; `kept` ends the message."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and not type(error).__module__.startswith(_CLIENTS):
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        text = text if len(text) <= 200 else text[:200].rpartition(". ")[0] or text[:200].rpartition(" ")[0]
        raise ConfigError(f"The hub refused or was out of reach: {text}{kept}.") from None


_CLIENTS = ("huggingface_hub", "httpx", "httpcore", "requests", "urllib3")
"""Prefixes of the modules of the hub's clients: huggingface_hub 2 uses httpx2 and httpcore2."""
