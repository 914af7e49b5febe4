"""The tables of docs/results/arena.md and arena_tables.md, from the standings that `arena --table` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from countdown_selfplay.evaluation.findings import KEPT
from countdown_selfplay.lab.arena.board import COLLAPSED
from countdown_selfplay.lab.arena.contestants import contestants, table
from countdown_selfplay.lab.arena.tracks import load_track, tracks

from .readers import Row, load, load_all

SPENT = {
    "answers": "answers",
    "uncounted_answers": "of them uncounted",
    "samples": "samples",
    "tokens": "tokens",
    "updates": "updates",
    "cpu_seconds": "CPU seconds",
}
HEALTH = ("admitted", "solve rate", "entropy of the prover", "entropy of the conjecturer", "groups without signal")


def standings() -> dict[str, Row]:
    """Track -> its standings."""
    found: dict[str, Row] = load("arena/standings.json")
    return found


def parts(found: Mapping[str, Row]) -> dict[str, str]:
    """Name of a mark -> the text between it and the end mark."""
    over = [one for one in found.values() if "points" in one]
    return {
        "arena plane": "\n\n".join(part for one in over for part in curves(one)),
        "arena plane tables": "\n\n".join(part for one in over for part in of_plane(one)),
        "arena contestants": played(),
        "arena tracks": "\n\n".join("\n\n".join(of_track(one)) for one in found.values()),
    }


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """A table whose first row is the head."""
    head, *rest = rows
    lines = [f"| {' | '.join(row)} |" for row in (head, *rest)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def played() -> str:
    """Contestant x track, with the reasons where one does not play."""
    return markdown(table([*contestants()], [load_track(name) for name in tracks()]))


def range_of(rungs: Sequence[int]) -> str:
    """The sizes of problems in words."""
    return f"sizes {rungs[0]} to {rungs[-1]}" if len(rungs) > 1 else f"size {rungs[0]}"


def of_track(found: Row) -> Iterator[str]:
    """The section of a track, paragraph by paragraph."""
    rows, facts = found["rows"], found["facts"]
    yield f"### Track `{found['track']}`"
    yield (
        f"{facts['rounds']} rounds, {facts['answers']:,} answers of the prover, {facts['updates']} updates; the score "
        f"is the mean over {range_of(facts['rungs'])}, {facts['sets']['held_out']['each']} "
        f"held-out problems of each size, {facts['samples']} answers to each."
    )
    yield markdown(ranking(found))
    yield "Cost, the mean over seeds:"
    head = ["contestant", *SPENT.values()]
    yield markdown([head, *([row["contestant"], *(f"{row[name]:,.0f}" for name in SPENT)] for row in rows)])
    yield "pass@1 by size:"
    sizes = [str(size) for size in facts["measured"]]
    cells = [[row["contestant"], *(f"{row['by_rung'][size][0]:.3f}" for size in sizes)] for row in rows]
    yield markdown([["contestant", *sizes], *cells])
    if any("targets" in row for row in rows):
        yield "The targets themselves, on which contestants train: pass@1, and the share solved within 16 answers:"
        yield markdown(of_targets(rows, facts["ks"]))
    if found["pairs"]:
        yield f"Each contestant against those that it names (Holm's p over these {len(found['pairs'])}):"
        yield markdown(pairs(found["pairs"]))
    yield "Health, in the first and the last twelfth of the run:"
    yield markdown(health(rows))
    yield "\n".join(failures(found))


def by_place(found: Row) -> list[str]:
    """The contestants of a track over a plane by their pass@1 at its last point."""
    last, k = found["points"][-1]["rows"], found["facts"]["ks"][0]
    return sorted(last, key=lambda name: last[name]["place"][f"pass@{k}"])


def curves(found: Row) -> Iterator[str]:
    """Every contestant of a track over a plane at every point."""
    at, seeds = found["points"], {row["contestant"]: len(row["seeds"]) for row in found["rows"]}
    ks = [f"pass@{k}" for k in found["facts"]["ks"]]
    yield f"{' / '.join(ks)}, in brackets the places by them, after so many answers:"
    rows = [["contestant", "seeds", *(f"{point['answers']:,.0f}" for point in at), "CPU seconds"]]
    spent = {row["contestant"]: f"{row['cpu_seconds']:,.0f}" for row in found["rows"]}
    for name in by_place(found):
        own = [point["rows"][name] for point in at]
        rates = [" / ".join(f"{row['score'][k]['value']:.3f}" for k in ks) for row in own]
        places = [", ".join(str(row["place"][k]) for k in ks) for row in own]
        shown = [f"{rate} ({place})" for rate, place in zip(rates, places, strict=True)]
        rows.append([name, str(seeds[name]), *shown, spent[name]])
    yield markdown(rows)


def of_plane(found: Row) -> Iterator[str]:
    """Of a track over a plane: every contestant by band at the last point, and its comparisons at each."""
    at, names = found["points"], by_place(found)
    last, ks = at[-1]["rows"], [f"pass@{k}" for k in found["facts"]["ks"]]
    (axis, bands), *_ = found["facts"]["bands"].items()
    yield f"By {axis} after {at[-1]['answers']:,.0f} answers, {' / '.join(ks)}:"
    bands = [str(band) for band in bands]
    rates = {n: [" / ".join(f"{last[n]['by_band'][k][band]:.2f}" for k in ks) for band in bands] for n in names}
    yield markdown([["contestant", *bands], *([name, *rates[name]] for name in names)])
    yield "Of the problems played in the last twelfth of the rounds:"
    shares = {row["contestant"]: [f"{row['played'][band]:.0%}" for band in bands] for row in found["rows"]}
    yield markdown([["contestant", *bands], *([name, *shares[name]] for name in names)])
    rows = [["contestant", "seeds", "runs that left a part", "since the twelfth"]]
    for name in names:
        since = [left_since(list(job["played"].values())) for job in load_all(f"arena/{found['track']}/{name}-*.json")]
        gone = sorted(number for number in since if number is not None)
        rows.append([name, str(len(since)), str(len(gone)), ", ".join(map(str, gone))])
    yield f"Runs that had left a part of the {axis}s by the end (the rule of a run's own finding), and since when:"
    yield markdown(rows)
    if at[-1]["pairs"]:
        yield f"Less another, with 95% intervals and p after Holm over the {len(at[-1]['pairs'])} at a point:"
        rows = [["contestant", "metric", *(f"{point['answers']:,.0f}" for point in at)]]
        for i, pair in enumerate(at[-1]["pairs"]):
            own = [point["pairs"][i] for point in at]
            shown = [f"{interval(one, 'difference', '+')} ({one['p_holm']:.3f})" for one in own]
            rows.append([f"{pair['contestant']} less {pair['other']}", pair["metric"], *shown])
        yield markdown(rows)


def left_since(played: Sequence[Sequence[int]]) -> int | None:
    """Return the twelfth of the rounds, from 1, since which problems of an upper or a lower part of the values are too
    rare (`findings.KEPT`); None if they are not at the end. played: counts by value, equally many held out of each,
    and twelfth."""
    gone = []
    for counts in zip(*played, strict=True):
        parts = [counts[:i] for i in range(1, len(counts))] + [counts[i:] for i in range(1, len(counts))]
        gone.append(any(sum(part) < KEPT * len(part) / len(counts) * sum(counts) for part in parts))
    kept = [number for number, is_gone in enumerate(gone, 1) if not is_gone]
    return None if kept[-1:] == [len(gone)] else max(kept, default=0) + 1


def interval(value: Row, name: str = "value", sign: str = "") -> str:
    """0.067 [0.055, 0.080]; without an interval where one seed has none."""
    shown = f"{value[name]:{sign}.3f}"
    return shown + (f" [{value['low']:{sign}.3f}, {value['high']:{sign}.3f}]" if "low" in value else "")


def ranking(found: Row) -> Iterator[list[str]]:
    """The head and a row for each contestant, ranked ones first."""
    ks, best = [f"pass@{k}" for k in found["facts"]["ks"]], found["best_control"]
    against = {(row["contestant"], row["metric"]): row for row in found["against_best"]}
    yield [
        "",
        "contestant",
        "seeds",
        *(cell for k in ks for cell in (k, f"less {best or 'a control'}", "p (Holm)", "verdict")),
    ]
    for place, row in enumerate(found["rows"], 1):
        cells = [str(place) if row["ranked"] else "–", row["contestant"], str(len(row["seeds"]))]
        for k in ks:
            other = against.get((row["contestant"], k))
            cells.append(interval(row["score"][k]))
            if other:
                cells += [interval(other, "difference", "+"), f"{other['p_holm']:.4f}", other["verdict"]]
            else:
                unranked = f"not ranked: {row['not_ranked']}"
                cells += [
                    "",
                    "",
                    unranked if row["not_ranked"] else "best control" if row["contestant"] == best else "",
                ]
        yield cells


def of_targets(rows: Sequence[Row], ks: Sequence[int]) -> Iterator[list[str]]:
    yield ["contestant", *(f"pass@{k}" for k in ks)]
    for row in rows:
        if "targets" in row:
            yield [row["contestant"], *(interval(row["targets"][f"pass@{k}"]) for k in ks)]


def pairs(rows: Sequence[Row]) -> Iterator[list[str]]:
    yield ["contestant", "other", "metric", "contestant less other [95%]", "p (Holm)", "verdict"]
    for row in rows:
        shown = interval(row, "difference", "+")
        yield [row["contestant"], row["other"], row["metric"], shown, f"{row['p_holm']:.4f}", row["verdict"]]


def health(rows: Sequence[Row]) -> Iterator[list[str]]:
    """First and last value of each; empty where a contestant has none."""
    yield ["contestant", *HEALTH]
    for row in rows:
        own = [row["health"].get(name) for name in HEALTH]
        yield [row["contestant"], *(f"{number(one[0])} to {number(one[-1])}" if one else "" for one in own)]


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def failures(found: Row) -> Iterator[str]:
    if not found["failed"] and not found["collapsed"]:
        yield "No job failed, and no prover collapsed."
    for one in found["failed"]:
        yield f"- {one['contestant']}, seed {one['seed']}, failed: {one['said']}"
    for one in found["collapsed"]:
        yield f"- {one['contestant']}, seed {one['seed']}, {COLLAPSED}"
