"""Equality of two mathematical values by math-verify; for worker processes only (workers.py), which import it before
their first deadline begins."""

import logging
import re
from functools import lru_cache
from typing import Any

import math_verify.parser
import sympy.parsing.sympy_parser  # type: ignore[import-untyped, unused-ignore]
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

_evaluated = sympy.parsing.sympy_parser.parse_expr


def _number_or_name(text: str, *given: Any, **named: Any) -> Any:
    """Replace the function by which SymPy evaluates texts as Python; the reader of LaTeX passes it numbers."""
    if re.fullmatch(r"[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?|[A-Za-z]\w*", text) is None:
        raise ValueError(f"{text:.40} is neither a number nor a name")
    return _evaluated(text, *given, **named)


sympy.parsing.sympy_parser.parse_expr = math_verify.parser.parse_expr = _number_or_name

# Its own time-outs use signals; the worker's deadline replaces them, so that its warning is not news.
logging.getLogger("math_verify").setLevel(logging.ERROR)
# No extraction: a text must be readable as a whole, and math_answers.py has read the unit.
_WHOLE = LatexExtractionConfig(
    try_extract_without_anchor=False,
    boxed_match_priority=0,
    normalization_config=NormalizationConfig(units=False, malformed_operators=True, nits=True),
)


def check(texts: list[str]) -> bool:
    """Return for [gold, answer] whether their values are equal, for [gold] whether it is read as more than a text."""
    if len(texts) == 1:
        return any(not isinstance(parsed, str) for parsed in _parsed(texts[0]))
    wanted, parsed = _parsed(texts[0]), _parsed(texts[1])
    return bool(wanted and parsed and verify(list(wanted), list(parsed), timeout_seconds=None))


@lru_cache(maxsize=1024)
def _parsed(answer: str) -> tuple[Any, ...]:
    return tuple(parse(f"\\boxed{{{answer}}}", extraction_config=(_WHOLE,), parsing_timeout=None))


_parsed("1")  # its grammar is built with the first answer
