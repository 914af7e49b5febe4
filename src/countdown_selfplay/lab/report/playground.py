"""playground.html: the logged rounds of a run one at a time, with proposals, answers and rewards. One file with its
data, style and script inside; nothing is loaded from elsewhere."""

import base64
import hashlib
import json
import unicodedata
from collections import Counter
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
MAIN = ("/correct_rate", "/admitted_rate", "/reward", "/win_rate", "/solve_rate_mean")
"""Ends of the names of the metrics that a round shows."""
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories of characters
MARK = '<meta name="generator" content="countdown-selfplay playground">'
"""Text that identifies such a page, which may then be replaced."""


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
    gaps = []  # the logged rounds between two shown ones, in words
    for before, index in zip([-1, *kept], kept, strict=False):
        between = [f"{step:g}" for step, _ in played[before + 1 : index]]
        gaps.append(" to ".join(dict.fromkeys([*between[:1], *between[-1:]])))
    head = {"name": visible(run.name), "word": "Iteration" if run.iterations else "Round", "gaps": gaps}
    data = f'{_json(head)[:-1]},"rounds":[{",".join(encoded[i] for i in kept)}]}}'
    script = PackageLoader(__package__).get_source(template("playground.html.j2").environment, "playground.js")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    version = run.environment.get("countdown-selfplay")
    facts = [f"{len(played):,} logged rounds"]
    facts += [f"seed {run.config['seed']}"] if "seed" in run.config else []
    facts += [f"countdown-selfplay {version}"] if version else []
    return template("playground.html.j2").render(
        mark=MARK, name=visible(run.name), facts=facts, note=note, setting=tables.setting(run),
        notes=_notes(run, len(kept), len(played)), data=data, script=script, digest=digest,
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
    proposals = [row for row in rows if _kind(row) == "conjecturer"]
    rest = [row for row in rows if _kind(row) != "conjecturer"]
    answers = [row for row in rest if _kind(row) == "prover" and row.get("reason") not in OUTCOMES]
    logged = next((row for row in run.rounds if row["step"] == step), {})
    problems = []
    for key in dict.fromkeys(str(row["problem"]) for row in rest if row.get("problem") is not None):
        of = [row for row in rest if str(row.get("problem")) == key]
        known = {name: _label(str(of[0][name])) for name in ("rung", "source") if name in of[0]}
        paid = [_pay(row) for row in proposals if row.get("problem") == key and row.get("reason") == "ok"]
        problems.append({"problem": _label(key), **known, **({"pay": paid[0]} if paid else {}), "groups": _groups(of)})
    return {
        "round": step, "right": sum(row.get("reason") in GOOD for row in answers), "answers": len(answers),
        "metrics": {visible(name): float(f"{logged[name]:.3g}") for name in logged if name.endswith(MAIN)},
        "proposals": _shared([_card(row) for row in proposals]), "problems": problems,
        "others": _groups([row for row in rest if row.get("problem") is None]),
    }  # fmt: skip


def _kind(row: Mapping[str, Any]) -> str:
    return str(row["role"]).partition("/")[0]


def _groups(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Group cards: first answers, critiques, revisions, texts of other roles."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        title = REVISIONS if row.get("reason") in OUTCOMES else HEADINGS.get(_kind(row), f"Texts of {_kind(row)}")
        groups.setdefault(title, []).append(_card(row))
    order = {title: i for i, title in enumerate([*HEADINGS.values(), REVISIONS])}
    titles = sorted(groups, key=lambda title: order.get(title, len(order)))
    return [{"title": _label(title), **_shared(groups[title])} for title in titles]


def _shared(cards: list[dict[str, Any]]) -> dict[str, Any]:
    """Return cards with their common prompt once, and equal cards as one with their `count`."""
    prompts = {card["prompt"] for card in cards}
    shared = prompts.pop() if len(prompts) == 1 else ""
    equal: dict[str, dict[str, Any]] = {}
    counts = Counter[str]()
    for card in cards:
        rest = {name: value for name, value in card.items() if name != "prompt" or not shared}
        text = json.dumps(rest, sort_keys=True)
        equal.setdefault(text, rest)
        counts[text] += 1
    shown = [equal[text] | ({"count": count} if count > 1 else {}) for text, count in counts.items()]
    return {"prompt": shared, "cards": shown}


def _card(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the card of a sample without absent fields."""
    reason, role, moves = str(row.get("reason") or "no reason"), str(row["role"]), row.get("moves")
    text, prompt = (visible(text_of(row.get(name))) for name in ("completion", "prompt"))
    card: dict[str, Any] = {"text": text, "prompt": prompt, "reason": _label(reason), "good": reason in GOOD}
    card |= _pay(row)
    if "/" in role:
        card["player"] = _label(role)
    if isinstance(moves, list) and all(isinstance(move, list) and len(move) == 2 for move in moves):
        lines = [(" ".join(map(str, s)) if isinstance(s, list) else text_of(s), text_of(move)) for s, move in moves]
        card["moves"] = [[_label(state), _label(move)] for state, move in lines]
    return card


def _pay(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: row[name] for name in ("reward", "advantage", "solve_rate") if is_number(row.get(name))}


def visible(text: str) -> str:
    """Replace control, format (bidi too) and lone surrogate characters of a text by their names."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"‹U+{ord(one):04X}›" if one not in "\n\t" and unicodedata.category(one) in _HIDDEN else one for one in text
    )


def _label(text: str) -> str:
    return visible(text if len(text) <= LONGEST else f"{text[:LONGEST]} …")


def evenly(sizes: Sequence[int], most: int) -> list[int]:
    """Return indices of as many as fit into `most`: the first, the last and evenly between; at least two."""
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
