"""Whether two mathematical answers are equal, by math-verify; runs in a worker process (workers.py)."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any


def check(pair: list[str]) -> bool:
    """[gold, answer], both as they stand in \\boxed{}: equal or not. What cannot be parsed equals nothing."""
    gold, answer = pair
    return _check(gold, answer)


def parses(answer: str) -> bool:
    """Whether an answer can be read as mathematics."""
    return bool(_parsed(answer))


def _check(gold: str, answer: str) -> bool:
    from math_verify import verify

    wanted, found = _parsed(gold), _parsed(answer)
    return bool(wanted and found and verify(list(wanted), list(found), timeout_seconds=None))


@lru_cache(maxsize=1024)
def _parsed(answer: str) -> tuple[Any, ...]:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    # Its own time-outs end by signals; the worker's deadline stands in their place, so that its warning is no news.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    kinds = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
    return tuple(parse(f"\\boxed{{{answer}}}", extraction_config=kinds, parsing_timeout=None, raise_on_error=False))
