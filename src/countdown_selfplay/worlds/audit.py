"""Audit of a domain: its scores of texts that solve nothing, and whether it executes texts."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLANTED = (
    "__import__('pathlib').Path('FILE').touch()",
    "open('FILE', 'w')",
    "[open('FILE', 'w')]",
    "(lambda: open('FILE', 'w'))()",
    "exec(\"open('FILE', 'w')\")",
    "1 if open('FILE', 'w') else 0",
    "{open('FILE', 'w')}",
    "\\text{open}(\\text{'FILE', 'w'})",
    "\\immediate\\write18{touch FILE}",
    "$(touch FILE)",
    "`touch FILE`",
    "; touch FILE",
    "!!python/object/apply:os.system ['touch FILE']",
    "cposix\nsystem\n(S'touch FILE'\ntR.",
    "{{ cycler.__init__.__globals__.os.popen('touch FILE').read() }}",
)
"""Answers that create FILE if they are executed: by Python, SymPy, TeX, a shell, YAML, pickle or Jinja."""
CONSTANTS = (
    *("0", "1", "-1", "24", "0.5", "nan", "inf", "1e999", "True", "Yes", "No", "None", "impossible", "I do not know"),
    *("[]", "{}", "[0]", "[NaN]", "[[0]]", "x", "C", "A", "-", '""', "2**3", "6*4*1*1"),
)
KINDS = ("constant", "question", "right or other", "unevaluated")


@dataclass(frozen=True)
class Paid:
    """Text that a domain accepts most in its category. right: share of right verdicts. score: mean score."""

    text: str
    right: float
    score: float


@dataclass(frozen=True)
class Audit:
    """Results of the audit of a domain."""

    ran: tuple[str, ...]
    """Planted answers that were executed."""
    paid: dict[str, Paid] = field(default_factory=dict)
    """Most accepted text of each category in KINDS."""
    right: float | None = None
    """Share of the given answers that are right; None without any."""


def audit(domain: Any, problems: Sequence[Any], answers: Sequence[str] = (), form: str = "ANSWER") -> Audit:
    """Verify texts that do not solve `problems` (the same text for all problems, the question, a right answer beside a
    wrong one, unevaluated forms of the question) and answers that create a file if they are executed. answers: a right
    one to each problem, or none. form: completion in which ANSWER is replaced, such as "<answer>ANSWER</answer>"."""

    def verdicts(texts: list[str], batch: list[Any]) -> list[Any]:
        return list(domain.verify([form.replace("ANSWER", text) for text in texts], batch))

    ran = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(i) for i in range(len(PLANTED))]
        texts = [text.replace("FILE", str(file)) for text, file in zip(PLANTED, files, strict=True)]
        for problem in problems[:3]:
            verdicts(texts, [problem] * len(texts))
        ran = [text for text, file in zip(PLANTED, files, strict=True) if file.exists()]

    cases = [(i, *one) for i, problem in enumerate(problems) for one in _junk(domain, problem, answers, i)]
    by_case: dict[tuple[str, str], list[Any]] = {}
    judged = verdicts([text for *_, text in cases], [problems[i] for i, *_ in cases])
    for (_, kind, name, _), verdict in zip(cases, judged, strict=True):
        by_case.setdefault((kind, name), []).append(verdict)
    paid: dict[str, Paid] = {}
    for (kind, name), group in by_case.items():
        right = sum(verdict.correct for verdict in group) / len(group)
        one = Paid(name, right, sum(float(verdict.score) for verdict in group) / len(group))
        if kind not in paid or (one.right, one.score) > (paid[kind].right, paid[kind].score):
            paid[kind] = one
    given = verdicts(list(answers), list(problems[: len(answers)]))
    return Audit(
        tuple(ran),
        paid,
        sum(verdict.correct for verdict in given) / len(given) if given else None,
    )


def _junk(domain: Any, problem: Any, answers: Sequence[str], i: int) -> Iterator[tuple[str, str, str]]:
    prompt = domain.prove_row(problem)["prompt"]
    question = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    yield "question", "the question", question
    for text in dict.fromkeys([*CONSTANTS, *answers]):
        yield "constant", text, text
    if answers:
        right = answers[i]
        other = next((one for one in answers if one != right), f"{right}0")
        for text in (f"{right} or {other}", f"{other} or {right}"):  # who writes both does not know which is right
            yield "right or other", "right or other", text
    for formula in _formulas(question):
        for form in ("expand(F)", "simplify(F)", "Integral(F, x)", "(F)", "eval('F')"):
            yield "unevaluated", form, form.replace("F", formula)


def _formulas(question: str) -> list[str]:
    """Return at most two texts that may be formulas, from the ends of the question's lines."""
    ends = (re.sub(r"∫|\bdx\b|=\s*\??\s*$", "", line.rpartition(":")[2]).strip() for line in question.splitlines())
    return [end for end in ends if re.search(r"[-+*/^]", end) and re.search(r"[0-9a-z]", end)][:2]
