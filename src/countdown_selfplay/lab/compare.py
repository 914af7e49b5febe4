"""Comparison of arms, one or several evaluations (training seeds) each, with a baseline on the same problems in the
same setting: pass@k differences with intervals, corrections for their number, and tables."""

import glob
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.jsonl import json_shape
from ..errors import ConfigError, DataError
from ..evaluation.answers import first_difference, read_answers, times_before
from ..evaluation.summary import powers_of_two
from ..statistics.bootstrap import CHANGE, SHARE, Estimate, Interval, ends, holm, two_level_draws, two_sided_p
from ..statistics.pass_at_k import pass_at_k_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTING = (
    *("temperature", "top_p", "top_k", "max_new_tokens", "min_p", "repetition_penalty", "stop_strings"),
    *("generation_kwargs", "chat_template_kwargs", "prover_prompt", "rules"),
)
"""Fields that must be equal for two evaluations to measure the same thing."""

_OFF = {"top_p": 1.0, "top_k": 0}  # None and these both switch the filter off

LEVEL = 0.95
_TAIL = 10  # resamples that should lie beyond the end of an interval
_FEW_SEEDS = 5


@dataclass(frozen=True)
class Result:
    """One evaluation. keys: identity of each problem (a repeated one is numbered); correct: right answers per problem
    out of `n`; setting: the fields of SETTING; truncated_rate: share of answers cut; dtype: of the model, if known."""

    path: str
    keys: list[str]
    correct: list[int]
    n: int
    setting: dict[str, Any]
    truncated_rate: float = 0.0
    dtype: str | None = None

    def only(self, keys: Sequence[str]) -> "Result":
        """Return the same evaluation on these problems, in this order."""
        place = {key: i for i, key in enumerate(self.keys)}
        return replace(self, keys=list(keys), correct=[self.correct[place[key]] for key in keys])


@dataclass(frozen=True)
class Arm:
    """Method with its evaluations, one per training seed."""

    name: str
    results: list[Result]


def load_arms(words: Sequence[str]) -> list[Arm]:
    """Load one arm per word: a file of `eval` (.jsonl or .json), a run folder (its evaluation.json after training;
    `RUN:before` for before), or `name=PATH,PATH` with one path or pattern per training seed. Raises DataError for an
    absent, invalid or repeated path, and for two arms with one name."""
    arms = [(name, [load_result(path) for path in paths]) for name, paths in map(split_arm, words)]
    places = [Path(results[0].path) for _, results in arms]
    short = [(place.name == "evaluation.json" and place.parent.name) or place.stem for place in places]
    names = [name or own for (name, _), own in zip(arms, short, strict=True)]
    if len(set(names)) < len(names):
        long = [f"{place.resolve().parent.name}/{own}" for place, own in zip(places, short, strict=True)]
        names = [name or own for (name, _), own in zip(arms, long, strict=True)]
    check_names(names)
    return [Arm(name, results) for name, (_, results) in zip(names, arms, strict=True)]


def check_names(names: Sequence[str]) -> None:
    """Raise DataError if two arms have one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"Two arms are called '{twice[0]}'; give each a name, as in `new=PATH`.")


def check_settings(arms: Sequence[Arm]) -> str | None:
    """The first difference between the settings of two evaluations, as a sentence; None if all are alike."""
    first, *others = [result for arm in arms for result in arm.results]
    for result in others:
        if (differing := first_difference(first.setting, result.setting)) is not None:
            name, before, now = differing
            return f"'{result.path}' was made with {name} {now!r} and '{first.path}' with {before!r}"
    return None


def unlike_precisions(arms: Sequence[Arm]) -> list[str]:
    """A note where the models computed in different precisions."""
    kinds = sorted({result.dtype for arm in arms for result in arm.results if result.dtype is not None})
    return [f"The models computed in different precisions: {', '.join(kinds)}."] if len(kinds) > 1 else []


def aligned_arms(
    arms: Sequence[Arm], common: bool = False, cure: str = "evaluate all on the same problems"
) -> list[Arm]:
    """Return the arms with every evaluation's problems in the order of the first one's. With `common` only the shared
    problems; otherwise different problems are a DataError, which ends with `cure`."""
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
    """Write the right answers per problem of aligned arms to one compact file, the source of a published table."""
    first = arms[0].results[0]
    record = {
        "setting": first.setting,
        "problems": first.keys,
        "arms": {arm.name: [{"n": result.n, "correct": result.correct} for result in arm.results] for arm in arms},
    }
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


def load_result(path: str) -> Result:
    """Load one evaluation from a file of `eval` or a run folder. Raises DataError for another file."""
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
        dtype = answers.setting.get("dtype")
        return Result(path, _numbered(keys), correct, answers.n, _setting(answers.setting), cut, dtype)
    cure = "make one with `countdown-selfplay eval --output x.jsonl`"
    with json_shape(place, "a prover's right answers by the keys of its problems", cure) as content:
        content = content[when]["prover"] if "after" in content else content
        keys, correct = [str(key) for key in content["keys"]], [int(c) for c in content["correct"]]
        n, setting = int(content["n"]), _setting(content["setting"])
        cut, dtype = float(content.get("truncated_rate") or 0.0), content["setting"].get("dtype")
    if len(keys) != len(correct) or not keys:
        raise DataError(f"'{path}' has {len(keys)} problem keys and {len(correct)} counts; evaluate the model again.")
    return Result(path, _numbered(keys), correct, n, setting, cut, dtype)


def _setting(raw: dict[str, Any]) -> dict[str, Any]:
    domain = raw.get("domain") or {}
    named = {**raw, **{name: domain[name] for name in ("prover_prompt", "rules") if name in domain}}
    setting = {name: _OFF.get(name) if named.get(name) is None else named[name] for name in SETTING}
    # Countdown's ranges and its other prompt do not change how an answer is judged.
    return setting if "prover_prompt" in domain else {**setting, "domain": domain}


def _numbered(keys: Sequence[str]) -> list[str]:
    return [key if times == 0 else f"{key} ({times + 1})" for key, times in zip(keys, times_before(keys), strict=True)]


def split_arm(word: str) -> tuple[str, list[str]]:
    """Return the name ("" if none is given) and the paths of one arm."""
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


@dataclass(frozen=True)
class Difference:
    """pass@k of `arm` minus that of the baseline.

    percentile: the 95% interval of this difference alone; bonferroni: that at level 1 - .05 / m, which covers all m
    differences of the comparison at once; p: bootstrap p-value of no difference; p_holm: adjusted for the m of them.
    """

    arm: str
    k: int
    percentile: Interval
    bonferroni: Interval
    p: float
    p_holm: float


@dataclass(frozen=True)
class Comparison:
    """Comparison of arms. arms: names, the baseline first. values: (arm, k) -> pass@k with a 95% interval.
    differences: by arm and k. problems: number of compared ones; seeds: training seeds per arm; resamples: number of
    draws."""

    arms: list[str]
    ks: list[int]
    values: dict[tuple[str, int], Estimate]
    differences: list[Difference]
    problems: int
    seeds: dict[str, int]
    resamples: int

    def notes(self) -> list[str]:
        """Return notes for readers of the numbers."""
        m = len(self.differences)
        few = [f"{name} has {count}" for name, count in self.seeds.items() if 1 < count < _FEW_SEEDS]
        single = [name for name, count in self.seeds.items() if count == 1]
        several = len(single) < len(self.seeds)
        drawn = "training seeds of each arm and problems" if several else "problems"
        notes = [
            f"{self.problems} problems, paired. {self.resamples:,} resamples of {drawn}; 95% intervals of single "
            f"differences. Baseline: {self.arms[0]}."
        ]
        if m > 1:
            notes.append(
                f"{m} intervals of differences: if no arm differed, {m} x 5% = {m * 0.05:.2g} would be expected to "
                "exclude 0. Bonferroni intervals and Holm's p-values are adjusted for their number."
            )
        if several:
            notes.append("Two-level bootstrap: problems are resampled, and means of seeds spread by Welch's t.")
            if few:
                notes.append(f"Few training seeds ({', '.join(few)}): the intervals are wide for it.")
            if single:
                notes.append(f"One training seed of {', '.join(single)}: the spread over its seeds is unknown.")
        else:
            notes.append("One training seed per arm: this is about these weights, not about the methods.")
        if self.resamples * (1 - LEVEL) / (2 * max(m, 1)) < _TAIL:
            notes.append(f"{self.resamples:,} resamples are few for {m} Bonferroni intervals; take more.")
        return notes

    def to_dict(self) -> dict[str, Any]:
        return {
            "arms": self.arms, "problems": self.problems, "training_seeds": self.seeds, "resamples": self.resamples,
            "pass_at": {arm: {str(k): self.values[arm, k].to_dict() for k in self.ks} for arm in self.arms},
            "differences": [{"arm": d.arm, "minus": self.arms[0], **asdict(d)} for d in self.differences],
            "notes": self.notes(),
        }  # fmt: skip


def compare_arms(
    arms: Sequence[Arm], ks: Sequence[int] | None = None, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare every arm with the first one at each k (default: the powers of two up to the smallest n). The
    evaluations must be aligned (`aligned_arms`). With one evaluation per arm a resample draws problems (paired); if an
    arm has several, the spread over training seeds is added (two_level_bootstrap). The evaluations' n may differ.
    Raises ConfigError with fewer than two arms or a k above the smallest n."""
    if len(arms) < 2:
        raise ConfigError(f"A comparison needs at least two arms, got {len(arms)}.")
    least = min(result.n for arm in arms for result in arm.results)
    ks = powers_of_two(least) if ks is None else sorted(set(ks))
    wrong = [k for k in ks if not 1 <= k <= least]
    if wrong or not ks:
        raise ConfigError(f"`ks` ({wrong[0] if wrong else ks}) must lie between 1 and the least answers, n = {least}.")
    values: dict[tuple[str, int], Estimate] = {}
    passed: dict[tuple[str, int], np.ndarray] = {}
    drawn: list[tuple[str, int, np.ndarray]] = []
    for arm in arms:
        for k in ks:
            own_SP = np.stack([pass_at_k_array(result.correct, result.n, k) for result in arm.results])
            passed[arm.name, k] = own_SP
            means = two_level_draws(np.zeros((1, own_SP.shape[1])), own_SP, resamples, seed)
            low, high = ends(own_SP.mean(0), means, LEVEL, SHARE)
            values[arm.name, k] = Estimate(float(own_SP.mean()), low, high)
            if arm is not arms[0]:
                drawn.append((arm.name, k, two_level_draws(passed[arms[0].name, k], own_SP, resamples, seed)))
    problems = len(arms[0].results[0].keys)
    p_values = [two_sided_p(means, problems) for _, _, means in drawn]
    strict = 1 - (1 - LEVEL) / max(len(drawn), 1)
    differences = []
    for (name, k, means), p, p_holm in zip(drawn, p_values, holm(p_values), strict=True):
        value_P = passed[name, k].mean(0) - passed[arms[0].name, k].mean(0)
        size, both = float(value_P.mean()), [ends(value_P, means, level, CHANGE) for level in (LEVEL, strict)]
        differences.append(Difference(name, k, Interval(size, *both[0]), Interval(size, *both[1]), p, p_holm))
    seeds = {arm.name: len(arm.results) for arm in arms}
    return Comparison(list(seeds), list(ks), values, differences, problems, seeds, resamples)


def rows_of(comparison: Comparison) -> list[tuple[str, ...]]:
    head = ["arm", "pass@k", comparison.arms[0], "arm's", "difference", "95% interval"]
    head += [f"Bonferroni ({len(comparison.differences)})", "p", "p (Holm)"]
    rows = [tuple(head)]
    for d in comparison.differences:
        cells = [d.arm, str(d.k), *(f"{comparison.values[arm, d.k].value:.4f}" for arm in (comparison.arms[0], d.arm))]
        cells.append(f"{d.percentile.difference:+.4f}")
        cells += [f"[{one.low:+.4f}, {one.high:+.4f}]" for one in (d.percentile, d.bonferroni)]
        rows.append((*cells, _p(d.p, comparison.resamples), _p(d.p_holm, comparison.resamples)))
    return rows


def markdown(rows: Sequence[tuple[str, ...]], notes: Sequence[str]) -> str:
    """Format a table with notes below it; the first row is its header."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], "", *(f"- {note}" for note in notes)]) + "\n"


def figure(comparison: Comparison) -> "Figure":
    """Plot pass@k of every arm against k (logarithmic), with 95% intervals that are not paired."""
    from .report.pictures import Curve, line_chart

    curves = []
    for arm in comparison.arms:
        values = [comparison.values[arm, k] for k in comparison.ks]
        y, low, high = (np.array([getattr(v, name) for v in values]) for name in ("value", "low", "high"))
        curves.append(Curve(arm, np.array(comparison.ks), y, low=low, high=high))
    return line_chart("pass@k with 95% intervals", curves, y_range=(0, 1), x_label="k", x_ticks=comparison.ks)


def _p(p: float, resamples: int) -> str:
    """Format a p-value with the digits that the resamples support."""
    least = 2 / (resamples + 1)
    return f"<{10 ** math.ceil(math.log10(least)):g}" if p <= least * 1.001 else f"{p:.4f}"
