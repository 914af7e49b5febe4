"""Answer files of `eval` with given counts of right answers, and no model."""

import json
from pathlib import Path
from typing import Any

from countdown_selfplay.countdown import Rules
from countdown_selfplay.evaluation.answers import Answer, header_line

SETTING: dict[str, Any] = {
    "model": "made-up", "n": 16, "seed": 0, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 1024,
    "prover_prompt": "countdown_3to4", "rules": Rules().to_dict(),
}  # fmt: skip


def answer(index: int, sample: int, right: bool, **changes: Any) -> Answer:
    values: dict[str, Any] = {
        "index": index, "problem": f"2,3={index + 10}", "operands": 2, "sample": sample,
        "completion": "<answer>é</answer>", "score": float(right), "reason": "correct" if right else "wrong_value",
        "answer": "7" if right else "8", "tags": 1, "tokens": 3, "truncated": False,
    }  # fmt: skip
    return Answer(**{**values, **changes})


def write_answers(path: Path, counts: Any, n: int = 16, keys: Any = None, truncated: int = 0, **setting: Any) -> Path:
    """Problem i got counts[i] right answers of n; the first `truncated` answers of all were cut."""
    header = {**SETTING, "n": n, "n_problems": len(counts), **setting}
    rows = [answer(i, j, j < c, truncated=i * n + j < truncated) for i, c in enumerate(counts) for j in range(n)]
    lines = [header_line(header)]
    for row in rows:
        values = json.loads(row.to_json())
        lines.append(json.dumps({**values, "problem": values["problem"] if keys is None else keys[row.index]}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def counted(correct: list[int]) -> dict[str, Any]:
    """What evaluation.json has of a prover with so many right answers of 4 to each problem."""
    setting = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": 16, "prover_prompt": "compact"}
    keys = [f"2,3={i}" for i in range(len(correct))]
    return {"n": 4, "correct": correct, "keys": keys, "setting": {**setting, "rules": {}}}
