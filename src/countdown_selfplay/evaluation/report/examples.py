"""Proposals and answers as they were written, one for each thing that happened to them."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from typing import Any

from ..critics.win_rates import OF_RIGHT, OF_WRONG
from .load import Run

OUTCOMES = (*OF_WRONG, *OF_RIGHT)
GOOD = ("ok", "correct", "right", "corrected", "resisted", "kept")
HEADINGS = {
    "conjecturer": "Proposals",
    "prover": "Answers",
    "helpful": "Helpful critiques",
    "misleading": "Misleading critiques",
    "guide": "Reviews",
}
_LONGEST = 2000  # characters of a text that are shown
_REASONS = 8  # most reasons of refusal of a player


def examples(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Cards of samples.jsonl under their headings, a heading for each player; {} if it is absent or empty."""
    found = {}
    rows = [row for row in run.samples if row.get("reason") not in OUTCOMES]
    players = dict.fromkeys(str(row.get("role")) for row in rows)
    for player in sorted(players, key=lambda name: (_rank(name), name)):
        kind = player.partition("/")[0]
        heading = HEADINGS.get(kind, f"Texts of {kind}") + (f" of {player}" if "/" in player else "")
        found[heading] = strata([row for row in rows if str(row.get("role")) == player], run.per_round)
    found["Transcripts"] = transcripts(run)
    return {heading: cards for heading, cards in found.items() if cards}


def strata(rows: list[dict[str, Any]], per_round: int = 1) -> list[dict[str, Any]]:
    """Of a player's texts the best reward, a typical one (the median), and every reason of refusal once, the most
    frequent first with its share; of equals always the latest."""
    chosen: list[tuple[str, dict[str, Any]]] = []
    rewarded = sorted((row for row in rows if _is_number(row.get("reward"))), key=lambda row: row["reward"])
    if rewarded:
        middle = statistics.median_low(row["reward"] for row in rewarded)
        typical = [row for row in rewarded if row["reward"] == middle][-1]
        chosen.append(("best reward", rewarded[-1]))
        if typical is not rewarded[-1]:
            chosen.append(("typical reward", typical))
    counts = Counter(str(row.get("reason") or "no reason") for row in rows)
    for reason, count in [pair for pair in counts.most_common() if pair[0] not in GOOD][:_REASONS]:
        row = next(row for row in reversed(rows) if str(row.get("reason") or "no reason") == reason)
        share = f"{reason}: {count} of {len(rows)} logged"
        same = next((i for i, (_, other) in enumerate(chosen) if other is row), None)
        if same is None:
            chosen.append((share, row))
        else:
            chosen[same] = (f"{chosen[same][0]}; {share}", row)
    return [{**_card(row, per_round), "stratum": stratum} for stratum, row in chosen]


def _rank(player: str) -> int:
    kinds = list(HEADINGS)
    kind = player.partition("/")[0]
    return kinds.index(kind) if kind in kinds else len(kinds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def transcripts(run: Run) -> list[dict[str, Any]]:
    """Of the critic game the first and the last logged revision of every outcome, each with question, answer and
    critique before it (Wang et al. 2025, figures 11 to 17)."""
    cards = []
    for outcome in OUTCOMES:
        rows = [row for row in run.samples if row.get("reason") == outcome]
        for row in rows[:1] + rows[1:][-1:]:
            dialogue = f"{_text(row.get('prompt'))}\n{row.get('role')}: {_text(row.get('completion'))}"
            cards.append({**_card(row, run.per_round), "text": dialogue, "prompt": "", "stratum": ""})
    return cards


def _card(row: dict[str, Any], per_round: int) -> dict[str, Any]:
    reward, reason = row.get("reward"), str(row.get("reason") or "no reason")
    step = row.get("step")
    facts = [f"round {step / per_round:g}" if step is not None and _is_number(step) else "round ?"]
    facts += [str(row["problem"])] if row.get("problem") else []
    facts += [f"reward {reward:.3g}"] if _is_number(reward) else []
    return {
        "reason": reason,
        "good": reason in GOOD,
        "facts": " · ".join(facts),
        "text": _text(row.get("completion")),
        "prompt": _text(row.get("prompt")),
    }


def _text(value: Any) -> str:
    """A text, or a chat as "role: content" lines; cut when long."""
    if isinstance(value, list) and all(isinstance(turn, dict) for turn in value):
        value = "\n".join(f"{turn.get('role', '?')}: {turn.get('content', '')}" for turn in value)
    elif not isinstance(value, str):
        value = "" if value is None else json.dumps(value)
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]} … ({len(value) - _LONGEST} more characters)"
