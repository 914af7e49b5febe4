"""How well a guide reviews: how many of its reviews can be read (SGS 2026, section 4.1: 54.7% before its fine-tuning,
over 99% after), and how many give the rubric's own score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..countdown import CountdownDomain, Problem
from ..countdown.rows import ROW_SCHEMAS
from ..distributed.processes import ALONE, Processes
from ..statistics.bootstrap import wilson_interval
from .sampling import sample_texts


def evaluate_guide(
    model: Any,
    tokenizer: Any,
    targets: Sequence[Problem],
    domain: CountdownDomain,
    *,
    processes: Processes = ALONE,
    seed: int = 0,
    **sampling: Any,
) -> dict[str, Any]:
    """One review for each of `targets`, of a problem that may help with it, as {"n", "readable", "as the rubric"}:
    shares with Wilson's 95% intervals, both of all reviews, so that one that cannot be read agrees with nothing.
    sampling: arguments of sample_completions."""
    rows = [ROW_SCHEMAS["reviewed"](target, domain) for target in targets]
    texts, _ = sample_texts(
        model, tokenizer, [row["prompt"] for row in rows], 1, processes=processes, seed=seed, **sampling
    )
    found = [domain.helping.read_review(text) for (text,) in texts]
    wanted = [domain.helping.read_review(_text(row["completion"])) for row in rows]
    same = sum(a is not None and b is not None and a.score == b.score for a, b in zip(found, wanted, strict=True))
    readable = len(found) - found.count(None)
    shares = {"readable": readable, "as the rubric": same}
    figures = {name: wilson_interval(count, len(found)) for name, count in shares.items()}
    return {"n": len(found), **{name: one.to_dict() for name, one in figures.items()}}


def _text(completion: Any) -> str:
    return completion if isinstance(completion, str) else completion[-1]["content"]
