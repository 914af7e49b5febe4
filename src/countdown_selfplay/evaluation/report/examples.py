"""Proposals and answers as they were written, from the first, a middle and the last logged round. All escaped."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from .load import Run

PER_STEP = 3  # of each role
_LONGEST = 2000  # characters of a text that are shown


def examples(run: Run) -> str:
    """Cards of samples.jsonl; "" if it is absent or empty."""
    steps = sorted({row["step"] for row in run.samples if isinstance(row.get("step"), int)})
    if not steps:
        return ""
    chosen = sorted({steps[0], steps[len(steps) // 2], steps[-1]})
    parts = []
    for role, what in (("conjecturer", "Proposals"), ("prover", "Answers")):
        cards = [
            _card(row)
            for step in chosen
            for row in [r for r in run.samples if r.get("step") == step and r.get("role") == role][:PER_STEP]
        ]
        if cards:
            parts.append(f'<h4>{what}</h4><div class="cards">{"".join(cards)}</div>')
    return "".join(parts)


def _card(row: dict[str, Any]) -> str:
    reward, reason = row.get("reward"), str(row.get("reason") or "")
    good = reason in ("ok", "correct")
    badge = f'<span class="badge {"good" if good else "bad"}">{escape(reason or "no reason")}</span>'
    facts = [f"round {row['step']}"]
    if row.get("problem"):
        facts.append(str(row["problem"]))
    if isinstance(reward, (int, float)) and reward == reward:
        facts.append(f"reward {reward:.3g}")
    prompt = _text(row.get("prompt"))
    return (
        f'<div class="card"><div class="facts">{badge} {escape(" · ".join(facts))}</div>'
        f"<pre>{escape(_text(row.get('completion'))) or '&nbsp;'}</pre>"
        f"<details><summary>prompt</summary><pre>{escape(prompt)}</pre></details></div>"
    )


def _text(value: Any) -> str:
    """A text, or a chat as "role: content" lines; cut when long."""
    if isinstance(value, list) and all(isinstance(turn, dict) for turn in value):
        value = "\n".join(f"{turn.get('role', '?')}: {turn.get('content', '')}" for turn in value)
    elif not isinstance(value, str):
        value = "" if value is None else json.dumps(value)
    if len(value) > _LONGEST:
        value = f"{value[:_LONGEST]} … ({len(value) - _LONGEST} more characters)"
    return value
