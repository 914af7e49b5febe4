"""Whether two mathematical answers are equal, by math-verify; for worker processes alone (workers.py), which import it
before their first deadline begins."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

# Its own time-outs end by signals; the worker's deadline stands in their place, so that its warning is no news.
logging.getLogger("math_verify").setLevel(logging.ERROR)
_KINDS = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())


def check(texts: list[str]) -> bool:
    """[gold, answer], both as they stand in \\boxed{}: equal or not. What cannot be parsed equals nothing. [gold]:
    whether it is read as more than a text."""
    if len(texts) == 1:
        return any(not isinstance(found, str) for found in _parsed(texts[0]))
    wanted, found = _parsed(texts[0]), _parsed(texts[1])
    return bool(wanted and found and verify(list(wanted), list(found), timeout_seconds=None))


@lru_cache(maxsize=1024)
def _parsed(answer: str) -> tuple[Any, ...]:
    return tuple(parse(f"\\boxed{{{answer}}}", extraction_config=_KINDS, parsing_timeout=None, raise_on_error=False))


_parsed("1")  # its grammar is built with the first answer
