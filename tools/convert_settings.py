"""Settings in the words that counted rows, in today's: a round in problems and proposals.

    python tools/convert_settings.py FILE...     # YAML, JSON and run folders, in place
    python tools/convert_settings.py --table     # round and config of each recipe, by --base and by this tree

A file may hold a recipe or other settings, a track of the arena or a row of it, a line of its leaderboard, a run's
run.json, its metrics or the state of a checkpoint; a folder is a run's. Recipes that settings begin with are read at
--base. Of a YAML file lines are edited, so that comments stay; of JSON the mappings that change, in the file's own
style. Words in a comment, in a command or in Python are not found. With --table the exit code is 1 if a recipe's round
differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from trees import ROOT, write_tree

TABLE: dict[str, str | None] = {
    "micro_batches": "problems_per_round, proposals_per_round; players: 0 for a conjecturer with 0",
    "samples_per_round": "problems_per_round, proposals_per_round",
    "questions": "problems_per_round",
    "<role>/dropped_rows": None,
}
"""Settings of roles and of games, and metrics -> what says it now, if anything. `truncate_multiple` is given where
`fill` needs it; it was the prover's micro_batches."""
OLD = tuple(name for name in TABLE if "/" not in name)
GONE = tuple(name.removeprefix("<role>") for name, new in TABLE.items() if new is None)
"""How the names of metrics end that are no longer logged."""
_OLD = re.compile(rf"(?:\w+[._])*(?:{'|'.join(OLD)})")
_DEFAULTS = {"prover_micro_batches": 8, "micro_batches": 1, "per_device_train_batch_size": 8, "num_generations": 8}
_DEFAULTS |= {"steps_per_round": 1, "players": 1}
_WARM = {"role", "iterations", "role_training"}
"""Settings of the warm starts and of the iterated game, which have no rounds."""
_ASKING = ("targets", "stp")
"""Proposers that ask for one group a target, however many rows the micro-batches hold."""
BASE = "4430b2a1"
PROCESSES = {"qwen2.5-7b/anchored_shaped_fixed": 8}
"""Recipes that are meant for several."""


# -- what settings mean --------------------------------------------------------------------------------------------


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Each setting of roles and games by one name, such as prover_beta and questions; None is not given."""
    found = {name.removeprefix("roles.").replace(".", "_"): value for name, value in settings.items()}
    for kind, own in (_mapping(settings.get("roles")) or {}).items():
        found |= {f"{kind}_{name}": value for name, value in {"players": 1, **(own or {})}.items()}
    found |= _mapping(settings.get("game_kwargs")) or {}
    return {name: value for name, value in found.items() if value is not None}


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, both flat; a plain setting hides the one of a role."""
    return {name: value for name, value in below.items() if name.partition("_")[2] not in above} | dict(above)


def sizes(settings: Mapping[str, Any], processes: int = 1) -> dict[str, Any]:
    """A round by flat settings in the old words, in the new ones."""

    def of(kind: str, name: str) -> Any:
        usual = settings.get(name, _DEFAULTS.get(f"{kind}_{name}", _DEFAULTS.get(name)))
        return settings.get(f"{kind}_{name}", usual)

    def samples(kind: str) -> int:
        """On all processes; the micro-batches hold so many unless it is said."""
        each = of("", "per_device_train_batch_size") * of("", "steps_per_round") * processes
        given: int | None = settings.get(f"{kind}_samples_per_round")
        return each * of(kind, "micro_batches") if given is None else given

    game, answers = settings.get("game", "propose_and_solve"), of("prover", "num_generations")
    if game == "critic_discernment":
        there = [kind for kind in ("helpful", "misleading") if settings.get(f"{kind}_players")]
        critics = {kind: of(kind, "num_generations") for kind in there}
        revisions = settings.get("revisions", 4) * max(critics.values(), default=0)
        needed = {"prover": answers * (1 + revisions)} | {kind: answers * said for kind, said in critics.items()}
        fits = min(samples(kind) // processes // most for kind, most in needed.items()) * processes
        return {"problems_per_round": settings.get("questions", fits)}
    found = {"problems_per_round": samples("prover") // answers}
    if game == "propose_and_solve" or "conjecturer_players" in settings:
        group = of("conjecturer", "num_generations")
        absent = 0 in (of("conjecturer", "micro_batches"), of("conjecturer", "players"))
        found |= {"conjecturer_players": 0} if absent else {"conjecturer_players": of("conjecturer", "players")}
        asked = _mapping(settings.get("proposer_kwargs")).get("batch") if settings.get("proposer") in _ASKING else None
        many = samples("conjecturer") // group * group if asked is None else min(samples("conjecturer"), asked * group)
        found |= {} if absent else {"proposals_per_round": many}
    if settings.get("fill") in ("truncate", "keep_all"):
        found["truncate_multiple"] = settings.get("truncate_multiple", of("prover", "micro_batches"))
    return found


def convert(
    settings: Mapping[str, Any], processes: int = 1, below: Mapping[str, Any] | None = None, base: str = BASE
) -> dict[str, Any]:
    """`settings` in the new words. They may be flat or nested, begin with a recipe, which is read at the commit
    `base`, or lie over other flat ones in the old words (`below`). A size that is what it is below is left out."""
    own = flat(settings)
    if _WARM & own.keys():
        return dict(settings)
    if below is None:
        below = recipe_at(base, own["recipe"]) if "recipe" in own else {}
    merged, under = sizes(over(below, own), processes), sizes(below, processes)
    wanted = {name: value for name, value in merged.items() if value != under.get(name)}
    if not below and any(map(_OLD.fullmatch, own)):
        wanted |= {name: value for name, value in merged.items() if name.endswith("per_round")}
    wanted = {name: value for name, value in wanted.items() if own.get(name) != value}
    if 0 not in (merged.get("conjecturer_players"), under.get("conjecturer_players")):
        wanted.pop("conjecturer_players", None)
    found: dict[str, Any] = {}
    for name, value in settings.items():
        kept = value
        if name == "roles" and _mapping(value):
            roles = {
                kind: {s: v for s, v in (of or {}).items() if s not in OLD} for kind, of in _mapping(value).items()
            }
            kept = _like(value, roles)
        elif name == "game_kwargs" and _mapping(value):
            kept = _like(value, {s: v for s, v in _mapping(value).items() if s not in OLD})
        if kept != value or _OLD.fullmatch(name):
            found, wanted = found | wanted, {}
        if not _OLD.fullmatch(name):
            found[name] = kept
    return found | wanted


def _mapping(value: Any) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) else {}


def _like(written: Any, value: dict[str, Any]) -> Any:
    return json.dumps(value) if isinstance(written, str) else value


def recipe_at(base: str, name: str) -> dict[str, Any]:
    """The flat settings of a recipe and of those that it begins with, at a commit."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "show", f"{base}:examples/recipes/{name}.yaml"], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"The recipe {name} is not in {base}; git says: {done.stderr.strip()}")
    own = flat(yaml.safe_load(done.stdout))
    return over(recipe_at(base, own.pop("recipe")), own) if "recipe" in own else own


# -- files ---------------------------------------------------------------------------------------------------------


def pairs(held: Any, base: str = BASE, processes: int = 1) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each mapping of settings in what a file holds, as it is and in the new words."""
    if isinstance(held, list):
        return [pair for one in held for pair in pairs(one, base, processes)]
    if not isinstance(held, dict):
        return []
    if isinstance(held.get("settings"), dict) and "recipe" in held:  # a track
        below = recipe_at(base, held["recipe"])
        return [(held["settings"], convert(held["settings"], processes, below, base))]
    found = []
    track = held.get("facts")
    if isinstance(track, dict) and isinstance(held.get("changes"), dict):  # a row of the arena
        below = recipe_at(base, track["recipe"])
        below = over(over(below, flat(track["settings"])), flat(track["fixed"]))
        found.append((held["changes"], convert(held["changes"], processes, below, base)))
    many = _mapping(held.get("environment")).get("processes", held.get("processes", processes))
    for name, value in held.items():
        if name in ("config", "settings") and isinstance(value, dict):  # of a run, a checkpoint, the leaderboard
            found.append((value, convert(value, many, None, base)))
        elif name != "changes":
            found += pairs(value, base, many)
    return found


def converted_json(text: str, base: str = BASE, processes: int = 1) -> str:
    """A file's text with each mapping of settings in the new words, in the style in which it was written."""
    for old, new in pairs(json.loads(text), base, processes):
        for before, after in zip(_styles(old), _styles(new), strict=True):
            if old != new and before in text:
                text = text.replace(before, after)
                break
        else:
            assert old == new, f"settings in a style that is not known: {old}"
    return text


def _styles(value: dict[str, Any]) -> list[str]:
    usual = [json.dumps(value, separators=(",", ":")), json.dumps(value)]
    deep = [
        json.dumps(value, indent=by, ensure_ascii=False).replace("\n", "\n" + " " * by * depth)
        for by in (1, 2)
        for depth in range(6)
    ]
    return usual + deep


def converted_yaml(text: str, base: str = BASE, processes: int = 1) -> str:
    """A recipe's or a track's text in the new words; its comments stay."""
    held = yaml.safe_load(text)
    wanted = (
        {**held, "settings": pairs(held, base)[0][1]} if pairs(held, base) else convert(held, processes, base=base)
    )
    new, old = (one["settings"] if "title" in held else one for one in (wanted, held))
    added = [f"{name}: {json.dumps(value)}" for name, value in new.items() if name not in old]
    lines: list[str] = []
    for line in text.splitlines():
        word = line.strip().partition(":")[0]
        gone = bool(_OLD.fullmatch(word))
        kept = re.sub(rf"(?<=[{{ ])\w*(?:{'|'.join(OLD)}): \w+(?:, |(?=\}}))", "", line)
        if added and (gone or kept != line or (word in ("roles", "game_kwargs") and old[word] != new[word])):
            lines += ["  " * ("title" in held) + one for one in added]
            added = []
        lines += [] if gone else [kept.replace(", }", "}")]
    found = "\n".join([*lines, *added]) + "\n"
    read = yaml.safe_load(found)
    assert read == wanted, f"these lines cannot be edited; wanted are {wanted}"
    return found


def count_rounds(folder: Path) -> None:
    """The logs of a run that counted optimizer steps, in rounds."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    each = 1 if run.get("counts") == "rounds" else run["config"].get("steps_per_round") or 1
    texts = {folder / "run.json": json.dumps(run | {"counts": "rounds"}, indent=2) + "\n"}
    for path in (folder / "metrics.jsonl", folder / "samples.jsonl"):
        lines = map(json.loads, path.read_text(encoding="utf-8").splitlines() if each > 1 and path.exists() else ())
        if rounds := "".join(json.dumps(line | {"step": line["step"] // each}) + "\n" for line in lines):
            texts[path] = rounds
    for path, text in texts.items():  # run.json first: a second call divides no more
        path.write_text(text, encoding="utf-8")


def rewrite(path: Path, base: str) -> None:
    """A file, or the folder of a run with its checkpoints, in the new words, in place."""
    if path.is_dir():
        count_rounds(path)
        for own in (path / "run.json", path / "metrics.jsonl", *path.glob("checkpoint-*/selfplay_state.json")):
            rewrite(own, base)
        return
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        logs = [{n: v for n, v in json.loads(line).items() if not n.endswith(GONE)} for line in text.splitlines()]
        path.write_text("".join(json.dumps(log) + "\n" for log in logs), encoding="utf-8")
        return
    if path.name != "selfplay_state.json":
        how = converted_json if path.suffix == ".json" else converted_yaml
        name = f"{path.parent.name}/{path.stem}"
        path.write_text(how(text, base, PROCESSES.get(name, 1)), encoding="utf-8")
        return
    complete = path.with_name("complete.json")  # it holds the digest of the state
    manifest = json.loads(complete.read_text())
    path.write_text(converted_json(text, base, manifest["processes"]), encoding="utf-8")
    manifest["files"][path.name] = [path.stat().st_size, sha256(path.read_bytes()).hexdigest()]
    complete.write_text(json.dumps(manifest, indent=1))


# -- the table -----------------------------------------------------------------------------------------------------

PROBE = """
import dataclasses, inspect, json
from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.config.recipes import recipe_settings, recipes
from countdown_selfplay.domains import domain_from
from countdown_selfplay.planning import dry_run
more = [JointSelfPlayConfig] * ("training" in inspect.signature(recipe_settings).parameters)
for name in recipes():
    kwargs, w = recipe_settings(name, *more).get("proposer_kwargs"), PROCESSES.get(name, 1)
    if isinstance(kwargs, dict) and "labels" in kwargs.get("difficulty_kwargs", {}):  # a file of an earlier run
        args = JointSelfPlayConfig.from_recipe(name, proposer_kwargs={**kwargs, "difficulty_kwargs": {}})
    else:
        args = JointSelfPlayConfig.from_recipe(name)
    roles = args.all_roles
    if hasattr(args, "problems_per_round"):
        problems, proposals = args.problems_per_round, args.proposals_per_round
    else:
        own = dry_run._planned_by_game(args, w) if args.game else None
        critics = args.game == "critic_discernment"
        problems = own[0] if critics else args.slots_per_round * w
        group, asked = args.role("conjecturer").num_generations if not critics else 1, args.players_of("conjecturer")
        proposals = args.capacity(asked[0]) * w // group * group if asked else 0
        if args.proposer in ("targets", "stp") and "batch" in args.proposer_arguments:
            proposals = min(proposals, args.proposer_arguments["batch"] * group)
    provers, writers = args.players_of("prover"), args.players_of("conjecturer")
    answers = problems * args.role("prover").num_generations
    steps = [args.steps_per_round, sorted({s.sequences_per_step for s in roles.values() if s.trained})]
    multiple = args.game_settings.truncate_multiple or getattr(args, "fill_multiple", None)
    multiple = multiple if args.game_settings.fill in ("truncate", "keep_all") else None
    config = {f"{role}: {n}": v for role, s in roles.items() for n, v in dataclasses.asdict(s).items()}
    config |= {**args.to_dict(), "domain": domain_from(args).to_dict(), "game": vars(args.game_settings)}
    config = {n: str(v) for n, v in config.items() if n not in ("logging_dir", "roles")}
    row = [name, problems, answers * len(provers), proposals * len(writers), steps, multiple, config]
    print(json.dumps(row))
"""


def rounds_in(tree: Path) -> dict[str, list[Any]]:
    """Recipe -> problems, answers, proposals, optimizer steps and the multiple of `fill`, by the package of a tree."""
    alone = {**os.environ, "PYTHONPATH": str(tree / "src"), "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryDirectory() as empty:
        code = f"PROCESSES = {PROCESSES!r}\n{PROBE}"
        done = subprocess.run([sys.executable, "-c", code], env=alone, cwd=empty, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{tree}: {done.stderr.strip()[-2000:]}")
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


def print_table(base: str) -> int:
    """1 if a round differs."""
    with tempfile.TemporaryDirectory() as folder:
        before = rounds_in(write_tree(base, Path(folder).resolve() / "base"))
    after = rounds_in(ROOT)
    print("| recipe | problems | answers | proposals | optimizer steps | checked config |\n|---|---|---|---|---|---|")
    both = sorted(before.keys() & after.keys())
    for name in both:
        there, here = before[name], after[name]
        config, own = there.pop(), here.pop()
        alike = sum(config[one] == own[one] for one in config.keys() & own.keys())
        others = sorted(one for one in config.keys() & own.keys() if config[one] != own[one])
        cells = [str(a) if a == b else f"{a} -> {b}" for a, b in zip(there, here, strict=False)]
        said = f"{'equal' if there == here else 'differs'}; {alike} fields equal{', not ' * bool(others)}"
        said += ", ".join(others[:8])
        steps = there[3][0] if there == here else cells[3]
        print(f"| {name} | {' | '.join(cells[:3])} | {steps} | {said} |")
    for name in sorted(before.keys() ^ after.keys()):
        print(f"| {name} | {'new' if name in after else 'gone'} |")
    return int(any(before[name] != after[name] for name in both))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--base", default=BASE, metavar="COMMIT", help="whose recipes are in the old words")
    args = parser.parse_args(argv)
    for path in args.files:
        rewrite(path, args.base)
    return print_table(args.base) if args.table else 0


if __name__ == "__main__":
    raise SystemExit(main())
