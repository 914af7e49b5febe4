"""playground.html: the logged rounds of a run one at a time, with proposals, answers and rewards. One file with its
data, style and script inside; nothing is loaded from elsewhere."""

import base64
import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import PackageLoader

from ...data.jsonl import lacking
from ...errors import DataError
from ...evaluation.load import Run, load_run
from ...options import is_number
from . import tables
from .page import GOOD, HEADINGS, OUTCOMES, save, template, text_of

MOST = 4_500_000
"""Bytes of the rounds of a page, which keeps it below 5 MB."""
OF_A_ROUND = 400_000
"""Bytes of one round."""
LONGEST = 500  # characters of a word, a key, a move or a state
REVISIONS = "Revisions"
MARK = '<meta name="generator" content="countdown-selfplay playground">'
"""Text that identifies such a page, which may then be replaced."""
SOURCES = {
    "proposal": "proposed", "random": "random problem", "data": "from the data set", "target": "target",
}  # fmt: skip
WHY_PROPOSAL = {
    "malformed": "no problem can be read in it",
    "out_of_range": "numbers or target beyond the run's ranges",
    "not_as_asked": "not the size that the prompt named",
    "copies_target": "the target itself",
    "unsolvable": "it has no solution",
    "held_out": "kept for the evaluation",
    "duplicate": "proposed before in this round",
    "not_novel": "played in an earlier round",
}
WHY_ANSWER = {
    "wrong_value": "another value than the target",
    "wrong_numbers": "a number is added, left out or used twice",
    "division_by_zero": "it divides by zero",
    "not_an_integer": "a division leaves a remainder",
    "no_answer": "no complete answer tag",
    "empty": "nothing was written",
    "too_long": "too many characters",
    "bad_character": "a character that no expression has",
    "malformed": "no expression",
    "grammar": "the last move is not of the form a op b = c",
    "operand": "the last move uses a number that is not there",
    "range": "the last move has no legal result",
    "arithmetic": "the result in the last move is wrong",
    "missed": "the last number is not the target",
    "too_many_moves": "cut at the most moves",
}
"""Reason -> explanation. Reasons of other domains have none."""


def write_playground(run_dir: Path | str, out: Path | str | None = None, note: str = "") -> Path:
    """Write the page about a run, by default into its folder; return its path. note: a line at its head. Raises
    DataError for a run without samples, and for another file at `out`."""
    folder = Path(run_dir)
    text, out = playground(load_run(folder), note), Path(folder / "playground.html" if out is None else out)
    if out.is_file() and MARK.encode() not in out.read_bytes()[:1000]:
        raise DataError(f"'{out}' exists and is not a playground page; it stays as it is: pass another --output.")
    save(text, out)
    return out


def playground(run: Run, note: str = "") -> str:
    """Return the whole document. Equal runs give equal text."""
    played = rounds_of(run)
    encoded = [_small(step, rows, run) for step, rows in played]
    kept = evenly([len(one) for one in encoded], MOST)
    numbers = [step for step, _ in played]
    gaps = [_gap(numbers, before, index) for before, index in zip([-1, *kept], kept, strict=False)]
    head = {
        "name": visible(run.name), "word": "Iteration" if run.iterations else "Round", "gaps": gaps,
        "sources": SOURCES, "why": {"proposal": WHY_PROPOSAL, "answer": WHY_ANSWER},
    }  # fmt: skip
    data = f'{_json(head)[:-1]},"rounds":[{",".join(encoded[i] for i in kept)}]}}'
    script = PackageLoader(__package__).get_source(template("playground.html.j2").environment, "playground.js")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    version = run.environment.get("countdown-selfplay")
    facts = [f"{len(played):,} logged rounds", f"seed {run.config['seed']}" if "seed" in run.config else ""]
    facts += [f"countdown-selfplay {version}" if version else ""]
    return template("playground.html.j2").render(
        mark=MARK, name=visible(run.name), facts=[fact for fact in facts if fact], note=note,
        setting=tables.setting(run), notes=_notes(run, len(kept), len(played)),
        left_out=", ".join(gap for gap in gaps if gap), data=data, script=script, digest=digest,
    )  # fmt: skip


def rounds_of(run: Run) -> list[tuple[int, list[dict[str, Any]]]]:
    """Return (step, its samples) by ascending step. Raises DataError without a sample, and for an invalid line."""
    if not run.samples:
        raise DataError(
            f"'{run.path}' holds no samples to step through (no samples.jsonl, or an empty one): it was played with "
            "samples_per_log 0, or has logged no round yet; play it with --samples_per_log 1000, which logs all."
        )
    by_step: dict[int, list[dict[str, Any]]] = {}
    for number, row in enumerate(run.samples, start=1):
        if fault := lacking(row, {"step": int, "role": str}):
            raise DataError(
                f"'{run.path / 'samples.jsonl'}', sample {number}: {fault}; it is damaged, or of a format that no "
                "release wrote: put the file back as the run wrote it, or play the run again."
            )
        by_step.setdefault(row["step"], []).append(row)
    return sorted(by_step.items())


def round_data(step: int, rows: Sequence[Mapping[str, Any]], run: Run) -> dict[str, Any]:
    """Return the page's data of a round: `proposals`, `problems` with the answers to each, and `others`, texts without
    a problem; `right` of `answers` logged first answers; `metrics` of all that was played."""
    proposals = [row for row in rows if kind_of(row) == "conjecturer"]
    rest = [row for row in rows if kind_of(row) != "conjecturer"]
    problems = dict.fromkeys(str(row["problem"]) for row in rest if row.get("problem") is not None)
    answers = [row for row in rest if kind_of(row) == "prover" and row.get("reason") not in OUTCOMES]
    return {
        "round": step, "right": sum(row.get("reason") in GOOD for row in answers), "answers": len(answers),
        "metrics": next((_told(row) for row in run.rounds if row["step"] == step), {}),
        "proposals": _shared([_card(row) for row in proposals]),
        "problems": [
            _problem(key, [row for row in rest if str(row.get("problem")) == key], proposals) for key in problems
        ],
        "others": _groups([row for row in rest if row.get("problem") is None]),
    }  # fmt: skip


def kind_of(row: Mapping[str, Any]) -> str:
    return str(row["role"]).partition("/")[0]


def _problem(key: str, rows: Sequence[Mapping[str, Any]], proposals: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    known = {name: _label(str(rows[0][name])) for name in ("rung", "source") if name in rows[0]}
    paid = [row for row in proposals if row.get("problem") == key and row.get("reason") == "ok"]
    return {"problem": _label(key), **known, **({"pay": _pay(paid[0])} if paid else {}), "groups": _groups(rows)}


def _groups(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Group cards: first answers, critiques, revisions, texts of other roles."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kind = kind_of(row)
        title = REVISIONS if row.get("reason") in OUTCOMES else HEADINGS.get(kind, f"Texts of {kind}")
        groups.setdefault(title, []).append(_card(row))
    order = {title: i for i, title in enumerate([*HEADINGS.values(), REVISIONS])}
    titles = sorted(groups, key=lambda title: order.get(title, len(order)))
    return [{"title": _label(title), **_shared(groups[title])} for title in titles]


def _shared(cards: list[dict[str, Any]]) -> dict[str, Any]:
    """Return cards with their common prompt once."""
    prompts = {card["prompt"] for card in cards}
    shared = prompts.pop() if len(prompts) == 1 else ""
    rest = [{name: value for name, value in card.items() if name != "prompt" or not shared} for card in cards]
    return {"prompt": shared, "cards": merged(rest)}


def _card(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card of a sample without absent fields."""
    reason, role, moves = str(row.get("reason") or "no reason"), str(row["role"]), row.get("moves")
    card: dict[str, Any] = {
        "text": visible(text_of(row.get("completion"))),
        "prompt": visible(text_of(row.get("prompt"))),
    }
    card |= {"reason": _label(reason), "good": reason in GOOD, **_pay(row)}
    if "/" in role:
        card["player"] = _label(role)
    if isinstance(moves, list) and all(isinstance(move, list) and len(move) == 2 for move in moves):
        lines = [(" ".join(map(str, s)) if isinstance(s, list) else text_of(s), text_of(text)) for s, text in moves]
        card["moves"] = [[_label(state), _label(text)] for state, text in lines]
    return card


def _pay(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: row[name] for name in ("reward", "advantage", "solve_rate") if is_number(row.get(name))}


def merged(cards: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge equal cards into one with their `count`."""
    equal: dict[str, list[dict[str, Any]]] = {}
    for card in cards:
        equal.setdefault(json.dumps(card, sort_keys=True), []).append(card)
    return [{**same[0], **({"count": len(same)} if len(same) > 1 else {})} for same in equal.values()]


def _told(row: Mapping[str, float]) -> dict[str, float]:
    """Return the main metrics of a round."""
    ends = ("/correct_rate", "/admitted_rate", "/reward", "/win_rate", "/solve_rate_mean")
    return {visible(name): float(f"{value:.3g}") for name, value in row.items() if name.endswith(ends)}


def visible(text: str) -> str:
    """Replace control, format (bidi too) and lone surrogate characters of a text by their names."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"‹U+{ord(one):04X}›" if one not in "\n\t" and unicodedata.category(one) in _HIDDEN else one for one in text
    )


def _label(text: str) -> str:
    return visible(text if len(text) <= LONGEST else f"{text[:LONGEST]} …")


_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def evenly(sizes: Sequence[int], most: int) -> list[int]:
    """Return indices of as many as together are no larger than `most`: the first, the last and evenly between; of two
    or more at least two."""
    count = len(sizes)
    while True:
        chosen = sorted({round(i * (len(sizes) - 1) / max(count - 1, 1)) for i in range(count)})
        total = sum(sizes[i] + 1 for i in chosen)
        if total <= most or count <= 2:
            return chosen
        count = max(2, min(count - 1, count * most // total))


def _small(step: int, rows: Sequence[Mapping[str, Any]], run: Run) -> str:
    """Return a round as JSON of at most OF_A_ROUND bytes, with fewer samples if necessary."""
    data, count = round_data(step, rows, run), len(rows)
    while len(text := _json(data)) > OF_A_ROUND and count > 1:
        count = max(1, min(count - 1, count * OF_A_ROUND // len(text)))
        data = round_data(step, [rows[i * len(rows) // count] for i in range(count)], run)
        data["cut"] = [count, len(rows)]
    return text


def _json(value: Any) -> str:
    """Return JSON that is safe in a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _gap(numbers: Sequence[float], before: int, index: int) -> str:
    """Describe the logged rounds between two shown ones."""
    between = [f"{number:g}" for number in numbers[before + 1 : index]]
    return between[0] if len(between) == 1 else f"{between[0]} to {between[-1]}" if between else ""


def _notes(run: Run, shown: int, logged: int) -> list[str]:
    """Return notes on absent data."""
    notes, limit = [], run.config.get("samples_per_log")
    if shown < logged:
        notes.append(
            f"{shown:,} of {logged:,} logged rounds are shown, the first, the last and evenly between, for a page "
            f"below 5 MB; {logged - shown:,} are left out."
        )
    if not any("advantage" in row for row in run.samples):
        notes.append("Advantages, the states of moves and where a problem is from were not recorded.")
    if run.iterations:
        notes.append("Of each iteration a few samples of every outcome are shown.")
    elif is_number(limit) and limit:
        notes.append(f"Samples are at most samples_per_log ({limit}) of each player and turn; metrics are of all.")
    return notes
