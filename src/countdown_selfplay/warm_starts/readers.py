"""Data of files and data sets as rows to train on: demonstrations, preferences and scored samples, without held-out
problems.

Corpora of other projects hold a row's problem in the text of its prompt (Allen and Ståblein's: `query` and
`completion`). The prompt is rendered again from the problem, so that a model is trained on the prompts that it will
be asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..contract.domain import Domain, OpenDomain, ended, in_moves
from ..countdown import CountdownDomain, Problem, problem_of_key
from ..countdown.prompts import problem_in_prompt
from ..data.jsonl import json_lines
from ..domains import is_held_out
from ..errors import DataError
from ..evaluation.token_ids import text_of
from .demonstrations import SCHEMA
from .filters import HELD_OUT, UNFINISHED, WRONG, Kept
from .pairs import PreferencePair, ScoredSample, group_of


def clean_demonstrations(
    rows: Iterable[Mapping[str, Any]],
    role: str,
    domain: Domain[Any],
    evaluated: Collection[str] = (),
    keep_wrong: bool = False,
    source: str = "the data",
) -> Kept[dict[str, Any]]:
    """The demonstrations that may be trained on, as rows with `prompt`, `completion` and the columns of their problem.

    A row needs `prompt`, `completion` and its problem (Countdown: numbers or nums, target), without which it
    is unknown whether it is held out; or `query` and `completion`, where the query asks for the problem. Left
    out: held-out problems (`is_held_out`; `evaluated` are keys), and, unless `keep_wrong`, completions that are not a
    correct answer or legal move (prover) or do not hold the row's problem, playable (conjecturer). DataError names a
    row that cannot be read.
    """
    kept: Kept[dict[str, Any]] = Kept()
    answers: list[tuple[str, Any]] = []
    for index, row in enumerate(rows):
        try:
            row = _with_problem(row, index, role, domain)
            problem = domain.problem(row, index)
            for name in ("prompt", "completion"):
                if row.get(name) is None:
                    raise DataError(
                        f"row {index}, column '{name}': absent; `countdown-selfplay dataset --schema "
                        f"{SCHEMA[role]}` writes demonstrations for the {role}."
                    )
            text = text_of(row["completion"])
        except DataError as error:
            where = str(error) if str(error).startswith("row ") else f"row {index}: {error}"
            raise DataError(f"{source}, {where}") from None
        own = {"prompt": row["prompt"], "completion": row["completion"]}
        reason = HELD_OUT if is_held_out(domain, problem, evaluated) else None
        kept.add({**domain.prove_row(problem), **own}, reason)
        if reason is None:
            answers.append((text, problem))
    if keep_wrong:
        return kept
    right = _right(answers, role, domain)
    fine = [row for row, one in zip(kept.rows, right, strict=True) if one]
    return Kept(fine, kept.read, +(kept.left_out + Counter({WRONG: right.count(False)})))


def _right(answers: Sequence[tuple[str, Any]], role: str, domain: Any) -> list[bool]:
    """Of (text, problem); a prover's answers are verified in one call."""
    texts, problems = [text for text, _ in answers], [problem for _, problem in answers]
    if role == "prover" and in_moves(domain):  # a legal move from where the row's problem begins
        ends = domain.moved(texts, problems, [domain.begin(problem) for problem in problems])
        return [not ended(end) or bool(end.correct) for end in ends]
    if role == "prover":
        return [bool(verdict.correct) for verdict in domain.verify(texts, problems)]
    if role == "guide":
        return [domain.helping.read_review(text) is not None for text in texts]
    proposed = [one.problem for one in domain.parse(texts)]
    return [
        one is not None and domain.key(one) == domain.key(asked) and domain.check([asked], [None])[0].reason == "ok"
        for one, asked in zip(proposed, problems, strict=True)
    ]


def _with_problem(row: Mapping[str, Any], index: int, role: str, domain: Domain[Any]) -> Mapping[str, Any]:
    """A row of `query` and `completion` as one with `prompt` and the problem's columns; any other row as it is.
    DataError for a row of neither schema."""
    if role != "prover" or "prompt" in row or not isinstance(domain, CountdownDomain):
        return row
    if "query" not in row and "completion" not in row and row:
        raise DataError(
            f"row {index} has the columns {', '.join(map(str, row))}; demonstrations have `prompt`, `completion` and "
            "their problem (`countdown-selfplay dataset --schema solved` writes such), or `query` and `completion`."
        )
    return {**row, **_asked_in(row, "query", index, domain)} if "query" in row else row


def _asked_in(row: Mapping[str, Any], column: str, index: int, domain: Any) -> dict[str, Any]:
    """`prompt`, `numbers` and `target` of the problem that the text in `column` asks for."""
    problem: Problem | None = problem_in_prompt(_text_in(row.get(column)))
    if problem is None:
        raise DataError(
            f"row {index}, column '{column}': no problem can be read from {str(row.get(column))[:60]!r}; it must hold "
            "'... numbers [44 19 35] ... equals 98', or the row `numbers` and `target`."
        )
    return dict(domain.prove_row(problem))


def _text_in(value: Any) -> str:
    """A text, or the texts of chat messages one below the other."""
    if isinstance(value, list):
        return "\n".join(str(message.get("content")) for message in value if isinstance(message, Mapping))
    return value if isinstance(value, str) else ""


PREFERENCES = ("chosen", "rejected")


def read_preferences(
    rows: Iterable[Mapping[str, Any]], domain: Domain[Any], evaluated: Collection[str] = (), source: str = "the data"
) -> Kept[PreferencePair]:
    """The pairs of rows with `chosen`, `rejected` and a problem: its own columns, or the text of `prompt` or `query`.
    Held-out problems are left out. DataError names the row: an absent column, or a pair of equal texts, which prefers
    nothing."""
    kept: Kept[PreferencePair] = Kept()
    for index, row in enumerate(rows):
        try:
            chosen, rejected = (_preference(row, name, index) for name in PREFERENCES)
            if chosen == rejected:
                raise DataError(
                    f"row {index}: `chosen` equals `rejected` ({chosen[:40]!r}) and prefers nothing; leave it out."
                )
            asked = "prompt" if row.get("prompt") is not None else "query"
            own = any(row.get(name) is not None for name in ("numbers", "nums", "ground_truth"))
            problem = domain.problem(row if own else _asked_in(row, asked, index, domain), index)
        except DataError as error:
            raise DataError(f"{source}, {error}") from None
        pair = PreferencePair(domain.key(problem), domain.prove_row(problem)["prompt"], chosen, rejected, 1.0)
        kept.add(pair, HELD_OUT if is_held_out(domain, problem, evaluated) else None)
    return kept


def _preference(row: Mapping[str, Any], name: str, index: int) -> str:
    """The completion in a column: a text, or the last message of a chat."""
    value = row.get(name)
    text = _text_in(value[-1:] if isinstance(value, list) else value)
    if not text:
        raise DataError(
            f"row {index}, column '{name}': absent or without a text; a preference has `chosen` and `rejected`."
        )
    return text


def read_samples(path: str, role: str, domain: OpenDomain[Any], evaluated: Collection[str] = ()) -> Kept[ScoredSample]:
    """The samples of a JSONL file, without those of held-out problems and those that were cut off.

    For the prover a row needs `completion` and its problem, as the domain reads it; for Countdown numbers or nums and
    target, or `problem`, the key that `countdown-selfplay eval` writes (its numbers are sorted). The score is the
    verifier's own; a `score` in the row must agree with it, or the row was scored under other rules (DataError). For
    the conjecturer a row needs `completion`, its request (Countdown: `operands`) and `score`, the reward of the
    proposal.
    """
    kept: Kept[ScoredSample] = Kept()
    for number, row in json_lines(Path(path), "pass a JSONL file with a row per sample"):
        if row.get("record") == "setting":  # the line that `eval` writes first
            continue
        try:
            if row.get("completion") is None:
                raise DataError("column 'completion' is absent.")
            text = text_of(row["completion"])
            sample, problem = (_answer if role == "prover" else _proposal)(row, text, domain)
        except DataError as error:
            raise DataError(f"'{path}', line {number}: {str(error).removeprefix('row 0, ')}") from None
        held_out = problem is not None and is_held_out(domain, problem, evaluated)
        kept.add(sample, HELD_OUT if held_out else UNFINISHED if row.get("truncated") else None)
    return kept


def _answer(row: Mapping[str, Any], text: str, domain: Domain[Any]) -> tuple[ScoredSample, Any]:
    by_key = isinstance(domain, CountdownDomain) and "target" not in row and "problem" in row
    try:
        problem = problem_of_key(str(row["problem"])) if by_key else domain.problem(row, 0)
    except ValueError:
        if not by_key:
            raise
        raise DataError(f"column 'problem' must be a key such as '3,5,7=22', got {row['problem']!r}.") from None
    (verdict,) = domain.verify([text], [problem])
    given = row.get("score")
    if given is not None and abs(float(given) - verdict.score) > 1e-9:
        raise DataError(
            f"the row says score {given} and the verifier {verdict.score} ({verdict.reason}) for "
            f"{domain.key(problem)}; set the domain's fields (Countdown: `prover_prompt` and `answer_rule`) to those "
            "of the evaluation."
        )
    prompt = domain.prove_row(problem)["prompt"]
    return ScoredSample(domain.key(problem), prompt, text, float(verdict.correct)), problem


def _proposal(row: Mapping[str, Any], text: str, domain: OpenDomain[Any]) -> tuple[ScoredSample, Any]:
    for name, like in (*domain.asks[0].items(), ("score", 0.0)):
        number = isinstance(row.get(name), int | float) and not isinstance(row.get(name), bool)
        if isinstance(like, int | float) and not number:
            raise DataError(f"column '{name}' must be a number, got {row.get(name)!r}.")
        if row.get(name) is None:
            raise DataError(f"column '{name}' is absent: it holds the request, such as {like!r}.")
    problem, score = domain.parse([text])[0].problem, float(row["score"])
    if problem is None and score > 0:
        raise DataError(f"score {score} for a text that holds no problem; set `conjecturer_prompt` to its format.")
    ask = {name: type(like)(row[name]) for name, like in domain.asks[0].items()}
    return ScoredSample(group_of(ask), domain.propose_row(**ask)["prompt"], text, score), problem
