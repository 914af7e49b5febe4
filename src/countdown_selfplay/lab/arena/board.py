"""The standings: what the files of finished jobs say, contestant against contestant. Loads no torch.

A score is the mean of pass@k over the track's scored problems. Its intervals cover a new training seed on new problems
(`two_level_draws`). Each contestant is compared with the best control, and with those that its own `against` names;
either family has its p-values adjusted by Holm."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...data.jsonl import json_file, json_shape
from ...errors import ConfigError, DataError
from ...evaluation.answers import first_difference
from ...evaluation.terminal import aligned
from ...statistics.bootstrap import CHANGE, ends, holm, t_interval, two_level_draws, two_level_interval, two_sided_p
from ...statistics.pass_at_k import pass_at_k_array
from .contestants import Contestant, contestants
from .schedule import FAILED
from .tracks import Track

Row = dict[str, Any]
VERDICTS = ("ahead", "behind", "inconclusive")
EVEN = 0.01
"""Share by which the answers of a job may pass those of the track."""
COLLAPSED = "collapsed: its prover solves nothing at the end, and did before training."
RESAMPLES = 10_000
_CURE = "remove it, and the job is played again"
FIELDS = {"contestant": str, "seed": int, "correct": list, "n": int, "facts": dict, "curve": list, "measured_on": str}


@dataclass
class Entry:
    """The finished jobs of one contestant on a track, by seed."""

    name: str
    jobs: list[Row] = field(default_factory=list)
    failed: list[Row] = field(default_factory=list)

    def rates(self, track: Track, k: int) -> np.ndarray:
        """pass@k by (seed, scored problem)."""
        each = track.sets["held_out"].each
        scored = [i * each + j for i, rung in enumerate(track.measured) if rung in track.rungs for j in range(each)]
        return np.stack([pass_at_k_array(job["correct"], job["n"], k)[scored] for job in self.jobs])


def read(
    folder: Path, track: Track, seeds: Sequence[int] | None = None, entrants: Sequence[Contestant] = ()
) -> list[Entry]:
    """Every contestant with a file in `folder`. ConfigError for a job whose rules, budget or problems are not those of
    the track, or whose settings are not those of the contestant: figures of two settings in one table would be
    compared. entrants: a user's own among them, whose jobs else need only have the same settings as each other."""
    entries: dict[str, Entry] = {}
    settings = {one.name: one.changes(track) for one in (*contestants().values(), *entrants)}
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(FAILED):
            name, _, seed = path.name[: -len(FAILED)].rpartition("-")
            if not name or not seed.isdecimal():
                raise ConfigError(f"{path} is not the file of a job, CONTESTANT-SEED{FAILED}; {_CURE}.")
            if path.with_name(f"{name}-{seed}.json").exists():  # it was played again since
                continue
            failure = json_file(path, _CURE, said=str)
            entries.setdefault(name, Entry(name)).failed.append({"seed": int(seed), **failure})
            continue
        with json_shape(path, "all that the tables print", _CURE, **FIELDS) as job:
            check(job, track, path, settings.setdefault(job["contestant"], job.get("changes", {})))
            row_of(Entry(job["contestant"], [job]), track)
        if seeds is None or job["seed"] in seeds:
            entries.setdefault(job["contestant"], Entry(job["contestant"])).jobs.append(job)
    for entry in entries.values():
        entry.jobs.sort(key=lambda job: job["seed"])
    order = [*contestants()]
    return sorted(entries.values(), key=lambda e: order.index(e.name) if e.name in order else len(order))


def check(job: Mapping[str, Any], track: Track, path: Path, settings: Mapping[str, Any]) -> None:
    """ConfigError that names the first difference from the track, or from the contestant's own `settings` there."""
    if path.name != f"{job['contestant']}-{job['seed']}.json":
        raise ConfigError(
            f"{path} holds the job of {job['contestant']} with seed {job['seed']}; give it that name, or remove it."
        )
    if (different := first_difference(job["facts"], track.facts)) is not None:
        name, was, now = different
        raise ConfigError(
            f"{path} was played with `{name}` {was}, and on the track {track.name} it is {now}; results of different "
            "rules, budgets or problems are not compared. Play it again in another folder, or put the track back."
        )
    if (different := first_difference(job.get("changes"), settings)) is not None:
        name, was, now = different
        raise ConfigError(
            f"{path} was played by a {job['contestant']} with `{name}` {was}, and now it has {now}; remove its files "
            f"({path.parent / job['contestant']}-*.json), and the jobs are played again, or give it another name."
        )
    if job["measured_on"] != "held_out":
        raise ConfigError(f"{path} was measured on the {job['measured_on']} problems; tuning runs are in no table.")
    if len(job["correct"]) != track.sets["held_out"].each * len(track.measured):
        raise DataError(f"{path} has {len(job['correct'])} counts; {_CURE}.")


def standings(folder: Path, track: Track, seeds: Sequence[int] | None = None) -> Row:
    """All that the page prints of a track, as plain data; the contestants by their score."""
    entries = read(folder, track, seeds)
    played = [entry for entry in entries if entry.jobs]
    rows = [row_of(entry, track) for entry in played]
    ranked = {row["contestant"]: entry for row, entry in zip(rows, played, strict=True) if row["ranked"]}
    kinds = {row["contestant"]: row["kind"] for row in rows}
    controls = [name for name in ranked if kinds[name] == "control"]
    first = f"pass@{track.ks[0]}"
    scores = {row["contestant"]: row["score"][first]["value"] for row in rows}
    best = max(controls, key=lambda name: scores[name], default=None)
    family = [(name, best, k) for name in ranked for k in track.ks if best is not None and name != best]
    of = {name: contestants()[name].against if name in contestants() else controls for name in ranked}
    asked = [(name, other, k) for name in ranked for other in of[name] if other in ranked for k in track.ks]
    pairs = compared(asked, ranked, track)
    return {
        "track": track.name, "facts": track.facts, "best_control": best,
        "rows": sorted(rows, key=lambda row: (not row["ranked"], -row["score"][first]["value"])),
        "against_best": compared(family, ranked, track), "pairs": pairs,
        **({"points": [*points(ranked, asked, track)]} if track.bands else {}),
        "collapsed": [{"contestant": entry.name, "seed": job["seed"]} for entry in played for job in collapsed(entry)],
        "failed": [{"contestant": entry.name, **one} for entry in entries for one in entry.failed],
    }  # fmt: skip


def points(entries: Mapping[str, Entry], asked: Sequence[tuple[str, str, int]], track: Track) -> Iterator[Row]:
    """Over a plane the standings at every point after the first: of each contestant its scores, its places by them and
    the score of each value of the second axis; and the comparisons, Holm's p over those of the point."""
    jobs = [job for entry in entries.values() for job in entry.jobs]
    for point in jobs[0]["curve"][1:] if jobs else ():
        at, here = point["round"], dict[str, Entry]()
        for name, entry in entries.items():
            correct = [next(p["correct"] for p in job["curve"] if p["round"] == at) for job in entry.jobs]
            here[name] = Entry(name, [job | {"correct": own} for job, own in zip(entry.jobs, correct, strict=True)])
        rows: dict[str, Row] = {name: {"score": {}, "place": {}, "by_band": {}} for name in here}
        for k in track.ks:
            rates = {name: entry.rates(track, k) for name, entry in here.items()}
            order = sorted(here, key=lambda name: -rates[name].mean())
            for name, row in rows.items():
                row["score"][f"pass@{k}"] = score(rates[name])
                row["place"][f"pass@{k}"] = order.index(name) + 1
                row["by_band"][f"pass@{k}"] = by_band(rates[name], track)
        yield {"round": at, "answers": point["answers"], "rows": rows, "pairs": compared(asked, here, track)}


def by_band(rates_SP: np.ndarray, track: Track) -> dict[str, float]:
    """Value of the second axis -> its mean over the scored rungs, whose problems lie band by band."""
    (values,) = track.bands.values()
    means = rates_SP.reshape(len(rates_SP), len(track.rungs), len(values), -1).mean((0, 1, 3))
    return {str(value): round(float(mean), 4) for value, mean in zip(values, means, strict=True)}


def collapsed(entry: Entry) -> list[Row]:
    """Jobs whose prover solves nothing of any measured rung at the end, and did before training."""
    jobs = []
    for job in entry.jobs:
        first, last = (any(map(any, job["curve"][at]["by_rung"].values())) for at in (0, -1))
        if job["curve"][0]["round"] == 0 and first and not last:
            jobs.append(job)
    return jobs


def compared(family: Sequence[tuple[str, str, int]], entries: Mapping[str, Entry], track: Track) -> list[Row]:
    """One row for (contestant, other, k), Holm's p over all of them; none of a single seed on both sides."""
    rows: list[Row] = []
    for name, other, k in family:
        above, below = entries[name].rates(track, k), entries[other].rates(track, k)
        if max(len(above), len(below)) < 2:
            continue
        draws, difference_P = two_level_draws(below, above, RESAMPLES, 0), above.mean(0) - below.mean(0)
        low, high = ends(difference_P, draws, 0.95, CHANGE)
        rows.append({
            "contestant": name, "other": other, "metric": f"pass@{k}", "difference": float(difference_P.mean()),
            "low": low, "high": high, "p": two_sided_p(draws, below.shape[1]), "seeds": [len(above), len(below)],
        })  # fmt: skip
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = round(adjusted, 4)
        shows = row["p_holm"] < 0.05 and (row["low"] > 0 or row["high"] < 0)
        row["verdict"] = VERDICTS[int(row["difference"] < 0)] if shows else VERDICTS[2]
        row |= {name: round(row[name], 5) for name in ("difference", "low", "high", "p")}
    return rows


def row_of(entry: Entry, track: Track) -> Row:
    known = contestants().get(entry.name)
    jobs = entry.jobs
    scores = {f"pass@{k}": score(entry.rates(track, k)) for k in track.ks}
    costs = ("answers", "uncounted_answers", "samples", "tokens", "updates", "cpu_seconds")
    spent = {name: round(float(np.mean([job[name] for job in jobs])), 1) for name in costs}
    kind, counted = known.kind if known else "contestant", dict(spent)
    if kind == "reference":  # it is told what it had to measure, so these answers are not counted against it
        counted["answers"] -= counted["uncounted_answers"]
    over = next((name for name in ("answers", "updates") if counted[name] > getattr(track, name) * (1 + EVEN)), None)
    reason = "" if over is None else f"took {counted[over]:,.0f} {over} of {getattr(track, over):,}"
    row = {
        "contestant": entry.name, "title": known.title if known else entry.name, "kind": kind,
        "seeds": [job["seed"] for job in jobs], "ranked": over is None, "not_ranked": reason, "score": scores,
        "by_rung": means([job["curve"][-1]["by_rung"] for job in jobs]), **spent, "curve": curve(jobs, track),
        "proposed": proposed(jobs), "health": means([job["health"] for job in jobs]),
    }  # fmt: skip
    if "played" in jobs[0]:
        last = {band: sum(job["played"][band][-1] for job in jobs) for band in jobs[0]["played"]}
        row["played"] = {band: round(count / max(sum(last.values()), 1), 4) for band, count in last.items()}
    if "targets" in jobs[0]:
        each = [job["targets"] for job in jobs]
        rates = {k: np.stack([pass_at_k_array(one["correct"], one["n"], k) for one in each]) for k in track.ks}
        row["targets"] = {f"pass@{k}": score(rates[k]) for k in track.ks}
    return row


def score(rates_SP: np.ndarray) -> Row:
    """The mean with its two-level interval (None of one seed), and the least and greatest seed."""
    seeds = rates_SP.mean(1)
    result: Row = {"value": round(float(seeds.mean()), 5), "least": float(seeds.min()), "most": float(seeds.max())}
    if len(seeds) > 1:
        interval = two_level_interval(np.zeros_like(rates_SP), rates_SP, RESAMPLES)
        result |= {"low": round(max(interval.low, 0.0), 5), "high": round(interval.high, 5)}
    return {name: round(value, 5) for name, value in result.items()}


def curve(jobs: Sequence[Row], track: Track) -> list[Row]:
    """The mean score of each k at each point that all seeds have, with Student's interval over seeds, and `by_rung`,
    rung -> its mean rates in the order of the track's `ks`."""
    rounds = [point["round"] for point in jobs[0]["curve"]]
    averages = []
    for at in rounds:
        points = [point for job in jobs for point in job["curve"] if point["round"] == at]
        if len(points) < len(jobs):
            continue
        here: Row = {
            name: float(np.mean([point[name] for point in points])) for name in ("round", "answers", "cpu_seconds")
        }
        for i, k in enumerate(track.ks):
            values = [float(np.mean([point["by_rung"][str(rung)][i] for rung in track.rungs])) for point in points]
            here[f"pass@{k}"] = {"value": round(float(np.mean(values)), 5)}
            if len(values) > 1:
                interval = t_interval(values)
                here[f"pass@{k}"] |= {"low": round(interval.low, 5), "high": round(interval.high, 5)}
        here["by_rung"] = means([point["by_rung"] for point in points])
        averages.append(here)
    return averages


def proposed(jobs: Sequence[Row]) -> dict[str, list[float]]:
    """Rung -> its problems in each part of the run, the mean over seeds; a seed without any of a rung counts as 0."""
    parts = max((len(counts) for job in jobs for counts in job["proposed"].values()), default=0)
    rungs = sorted({rung for job in jobs for rung in job["proposed"]}, key=int)
    of = {rung: [job["proposed"].get(rung, [0] * parts) for job in jobs] for rung in rungs}
    return {rung: [round(float(v), 2) for v in np.mean(counts, axis=0)] for rung, counts in of.items()}


def means(trees: Sequence[Mapping[str, Sequence[float | None]]]) -> dict[str, list[float | None]]:
    """Name -> the means of equally long lists, entry by entry; a name that a tree lacks counts as nothing there."""
    result: dict[str, list[float | None]] = {}
    for name in dict.fromkeys(name for tree in trees for name in tree):
        lists = [tree[name] for tree in trees if name in tree]
        columns = [[value for value in column if value is not None] for column in zip(*lists, strict=False)]
        result[name] = [round(float(np.mean(column)), 4) if column else None for column in columns]
    return result


def as_text(result: Mapping[str, Any]) -> str:
    best, ks = result["best_control"], [f"pass@{k}" for k in result["facts"]["ks"]]
    against = {(row["contestant"], row["metric"]): row for row in result["against_best"]}
    scored = (word for k in ks for word in (k, f"less {best or 'a control'} (p, Holm)"))
    rows = [("contestant", "seeds", *scored, "updates", "CPU s")]
    for row in result["rows"]:
        cells = []
        for k in ks:
            score, other = row["score"][k], against.get((row["contestant"], k))
            ends = f" [{score['low']:.3f}, {score['high']:.3f}]" if "low" in score else ""
            less = f"{_less(other)} ({other['p_holm']:.4f}) {other['verdict']}" if other else row["not_ranked"]
            cells += [f"{score['value']:.3f}{ends}", less]
        spent = (f"{row[name]:.0f}" for name in ("updates", "cpu_seconds"))
        rows.append((row["contestant"], str(len(row["seeds"])), *cells, *spent))
    failed = [f"{one['contestant']} seed {one['seed']} failed: {one['said']}" for one in result["failed"]]
    failed += [f"{one['contestant']} seed {one['seed']} {COLLAPSED}" for one in result["collapsed"]]
    return "\n".join([f"Track {result['track']}", aligned(rows), *plane_text(result), *failed])


def _less(pair: Mapping[str, Any]) -> str:
    return f"{pair['difference']:+.3f} [{pair['low']:+.3f}, {pair['high']:+.3f}]"


def plane_text(result: Mapping[str, Any]) -> Iterator[str]:
    """Tables of a track over a plane: scores and places at every point, by band at the last, comparisons."""
    points, ks = result.get("points", ()), [f"pass@{k}" for k in result["facts"]["ks"]]
    if not points:
        return
    last, heads = points[-1]["rows"], [f"{point['answers']:,}" for point in points]
    names = sorted(last, key=lambda name: last[name]["place"][ks[0]])
    for k in ks:
        rows = [(k, *heads)]
        for name in names:
            at = [point["rows"][name] for point in points]
            rows.append((name, *(f"{row['score'][k]['value']:.3f} ({row['place'][k]})" for row in at)))
        yield f"\n{aligned(rows)}"
    by_band = {name: last[name]["by_band"][ks[0]] for name in names}
    rows = [(f"{ks[0]} by band", *by_band[names[0]])]
    rows += [(name, *(f"{share:.3f}" for share in by_band[name].values())) for name in names]
    yield f"\n{aligned(rows)}"
    if not points[-1]["pairs"]:  # of one seed each
        return
    rows = [("less another (p, Holm)", "metric", *heads)]
    for i, pair in enumerate(points[-1]["pairs"]):
        cells = [f"{_less(point['pairs'][i])} ({point['pairs'][i]['p_holm']:.3f})" for point in points]
        rows.append((f"{pair['contestant']} - {pair['other']}", pair["metric"], *cells))
    yield f"\n{aligned(rows)}"
