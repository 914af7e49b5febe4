"""What is compared: arms of one or several evaluations (training seeds), on the same problems in the same setting."""

from __future__ import annotations

import glob
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...data.jsonl import json_shape
from ...errors import DataError
from ..answers import first_difference, read_answers

SETTING = ("temperature", "top_p", "top_k", "max_new_tokens", "prover_prompt", "rules")
"""Fields that must be equal for two evaluations to measure the same thing."""

_OFF = {"top_p": 1.0, "top_k": 0}  # None and these both switch the filter off


@dataclass(frozen=True)
class Result:
    """One evaluation. keys: identity of each problem (a repeated one is numbered); correct: right answers per problem
    out of `n`; setting: the fields of SETTING; truncated_rate: share of answers cut at the token budget."""

    path: str
    keys: list[str]
    correct: list[int]
    n: int
    setting: dict[str, Any]
    truncated_rate: float = 0.0

    def only(self, keys: Sequence[str]) -> Result:
        """The same evaluation on these problems, in this order."""
        place = {key: i for i, key in enumerate(self.keys)}
        return replace(self, keys=list(keys), correct=[self.correct[place[key]] for key in keys])


@dataclass(frozen=True)
class Arm:
    """A method: its evaluations, one per training seed."""

    name: str
    results: list[Result]


def load_arms(words: Sequence[str]) -> list[Arm]:
    """One arm per word: a file of `eval` (.jsonl or .json), a run folder (what its evaluation.json says after
    training; `RUN:before` for before), or `name=PATH,PATH` with one path or pattern per training seed.

    DataError for a path that is not there, is not a result or is given twice, and for two arms with one name.
    """
    found = [(name, [load_result(path) for path in paths]) for name, paths in map(split_arm, words)]
    names = [name or _short(results[0].path) for name, results in found]
    if len(set(names)) < len(names):
        folders = (Path(results[0].path).resolve().parent.name for _, results in found)
        names = [named or f"{folder}/{name}" for (named, _), folder, name in zip(found, folders, names, strict=True)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"Two arms are called '{twice[0]}'; give each a name, as in `new={twice[0]}`.")
    return [Arm(name, results) for name, (_, results) in zip(names, found, strict=True)]


def check_settings(arms: Sequence[Arm]) -> str | None:
    """The first difference between the settings of two evaluations, as a sentence; None if all are alike."""
    results = [result for arm in arms for result in arm.results]
    for result in results[1:]:
        differing = first_difference(results[0].setting, result.setting)
        if differing is not None:
            name, first, other = differing
            return f"'{result.path}' was made with {name} {other!r} and '{results[0].path}' with {first!r}"
    return None


def aligned_arms(
    arms: Sequence[Arm], common: bool = False, cure: str = "evaluate all on the same problems"
) -> list[Arm]:
    """The arms with every evaluation's problems in the order of the first one's. With `common` only the problems that
    all of them have; otherwise different problems are a DataError, which ends with `cure`: how the reader of the
    sentence can compare them all the same."""
    results = [result for arm in arms for result in arm.results]
    shared = set(results[0].keys).intersection(*(result.keys for result in results))
    if not shared:
        raise DataError("The evaluations have no problem in common; evaluate all models on one problem file.")
    for result in results[1:]:
        if not common and set(result.keys) != set(results[0].keys):
            both = len(set(results[0].keys) & set(result.keys))
            raise DataError(
                f"'{result.path}' has {len(result.keys)} problems and '{results[0].path}' {len(results[0].keys)}, of "
                f"which {both} are the same; {cure}."
            )
    keys = [key for key in results[0].keys if key in shared]
    return [Arm(arm.name, [result.only(keys) for result in arm.results]) for arm in arms]


def write_counts(path: Path, arms: Sequence[Arm]) -> None:
    """Right answers per problem of every evaluation of aligned arms, in one compact file: what a published table is
    made of, so that a better interval needs no new run. `read_counts` reads it."""
    first = arms[0].results[0]
    record = {
        "setting": first.setting,
        "problems": first.keys,
        "arms": {arm.name: [{"n": result.n, "correct": result.correct} for result in arm.results] for arm in arms},
    }
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


def read_counts(path: Path) -> list[Arm]:
    """The arms of a file that `write_counts` wrote."""
    with json_shape(path, "the right answers of each arm", "write it again with `write_counts`") as found:
        keys, setting = found["problems"], found["setting"]
        return [
            Arm(name, [Result(f"{path}:{name}", keys, one["correct"], one["n"], setting) for one in rows])
            for name, rows in found["arms"].items()
        ]


def load_result(path: str) -> Result:
    """One evaluation from a file of `eval` or a run folder. DataError if it is none of these."""
    place, when = Path(path), "after"
    if not place.exists() and path.rpartition(":")[2] in ("before", "after"):
        place, when = Path(path.rpartition(":")[0]), path.rpartition(":")[2]
    if not place.exists():
        raise DataError(f"There is no file or run folder '{path}'.")
    if place.is_dir():
        place = place / "evaluation.json"
        if not place.is_file():
            raise DataError(f"The folder '{path}' has no evaluation.json; score its policy with `eval` first.")
    if place.suffix == ".jsonl":
        answers = read_answers(place)
        correct = [sum(row.correct for row in rows) for rows in answers.by_problem()]
        keys = [rows[0].problem for rows in answers.by_problem()]
        cut = sum(row.truncated for row in answers.rows) / len(answers.rows)
        return Result(path, _numbered(keys), correct, answers.n, _setting(answers.setting), cut)
    return _from_summary(path, place, when)


def _from_summary(path: str, place: Path, when: str) -> Result:
    cure = "make one with `countdown-selfplay eval --output x.jsonl`"
    with json_shape(place, "a prover's right answers by the keys of its problems", cure) as found:
        found = found[when]["prover"] if "after" in found else found
        keys, correct, n = [str(key) for key in found["keys"]], [int(c) for c in found["correct"]], int(found["n"])
        setting = _setting(found["setting"])
        cut = float(found.get("truncated_rate") or 0.0)
    if len(keys) != len(correct) or not keys:
        raise DataError(f"'{path}' has {len(keys)} problem keys and {len(correct)} counts; evaluate the model again.")
    return Result(path, _numbered(keys), correct, n, setting, cut)


def _setting(raw: dict[str, Any]) -> dict[str, Any]:
    domain = raw.get("domain") or {}
    named = {**raw, **{name: domain[name] for name in ("prover_prompt", "rules") if name in domain}}
    found = {name: _OFF.get(name) if named.get(name) is None else named[name] for name in SETTING}
    # Countdown's ranges and its other prompt do not change how an answer is judged.
    return found if "prover_prompt" in domain else {**found, "domain": domain}


def _numbered(keys: Sequence[str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for key in keys:
        seen[key] += 1
        found.append(key if seen[key] == 1 else f"{key} ({seen[key]})")
    return found


def split_arm(word: str) -> tuple[str, list[str]]:
    """The name ("" if none is given) and the paths of one arm."""
    name, equals, rest = word.partition("=")
    if Path(word).exists() or not equals or "/" in name:
        return "", [word]
    paths: list[str] = []
    for part in rest.split(","):
        matching = [part] if Path(part).exists() else sorted(glob.glob(part))  # noqa: PTH207 - a pattern may be absolute
        paths += matching or [part]
    twice = [path for path, count in Counter(paths).items() if count > 1]
    if twice or not name or not all(paths):
        raise DataError(f"The arm '{word}' " + (f"holds '{twice[0]}' twice." if twice else "must be NAME=FILE,FILE."))
    return name, paths


def _short(path: str) -> str:
    place = Path(path)
    return (
        place.parent.name or place.stem if place.name == "evaluation.json" else place.name.removesuffix(place.suffix)
    )
