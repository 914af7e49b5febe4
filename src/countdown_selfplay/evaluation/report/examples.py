"""Proposals and answers as they were written, from the first, a middle and the last logged round."""

from __future__ import annotations

import json
from typing import Any

from ..critics.win_rates import OF_RIGHT, OF_WRONG
from .load import Run

PER_STEP = 3  # of each role
OUTCOMES = (*OF_WRONG, *OF_RIGHT)
GOOD = ("ok", "correct", "right", "corrected", "resisted", "kept")
_LONGEST = 2000  # characters of a text that are shown


def examples(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Cards of samples.jsonl under their headings; {} if it is absent or empty."""
    steps = sorted({row["step"] for row in run.samples if isinstance(row.get("step"), int)})
    chosen = sorted({steps[0], steps[len(steps) // 2], steps[-1]}) if steps else []
    found = {}
    roles = {"conjecturer": "Proposals", "prover": "Answers", "helpful": "Helpful critiques"}
    roles |= {"misleading": "Misleading critiques"}
    first_turns = [row for row in run.samples if row.get("reason") not in OUTCOMES]
    for role, heading in roles.items():
        of_role = [[r for r in first_turns if r.get("step") == step and r.get("role") == role] for step in chosen]
        found[heading] = [_card(row) for rows in of_role for row in rows[:PER_STEP]]
    found["Transcripts"] = transcripts(run)
    return {heading: cards for heading, cards in found.items() if cards}


def transcripts(run: Run) -> list[dict[str, Any]]:
    """Of the critic game the first and the last logged revision of every outcome, each with question, answer and
    critique before it (seed 002, figures 11 to 17)."""
    cards = []
    for outcome in OUTCOMES:
        rows = [row for row in run.samples if row.get("reason") == outcome]
        for row in rows[:1] + rows[1:][-1:]:
            dialogue = f"{_text(row.get('prompt'))}\n{row.get('role')}: {_text(row.get('completion'))}"
            cards.append({**_card(row), "text": dialogue, "prompt": ""})
    return cards


def _card(row: dict[str, Any]) -> dict[str, Any]:
    reward, reason = row.get("reward"), str(row.get("reason") or "no reason")
    facts = [f"round {row.get('step', '?')}"]
    facts += [str(row["problem"])] if row.get("problem") else []
    facts += [f"reward {reward:.3g}"] if isinstance(reward, (int, float)) and reward == reward else []
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
