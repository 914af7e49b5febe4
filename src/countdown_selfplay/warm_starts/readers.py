"""Readers of training rows without held-out problems: demonstrations, preferences and scored samples of files and data
sets, and samples that are drawn from the model and scored exactly.

Corpora of other projects hold a row's problem in the text of its prompt (Allen and Ståblein's: `query` and
`completion`). The prompt is rendered again from the problem, so that a model is trained on the prompts of its later
use."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from ..contract.domain import Domain, P, ended, in_moves
from ..countdown import CountdownDomain, Problem, problem_of_key
from ..countdown.prompts import problem_in_prompt
from ..data.files import load_problem_rows
from ..data.jsonl import json_lines
from ..domains import checked_alone, is_held_out, verdicts_of
from ..errors import DataError
from ..evaluation.sampling import sample_completions, text_of
from ..random_state import seed_from
from .configs import IPOArguments
from .demonstrations import SCHEMA
from .filters import HELD_OUT, UNFINISHED, WRONG, Kept, PreferencePair, ScoredSample


def clean_demonstrations(
    rows: Iterable[Mapping[str, Any]],
    role: str,
    domain: Domain[Any],
    evaluated: Collection[str] = (),
    keep_wrong: bool = False,
    source: str = "the data",
) -> Kept[dict[str, Any]]:
    """Return the demonstrations that may be trained on, as rows with `prompt`, `completion` and the columns of their
    problem. A row needs `prompt`, `completion` and its problem (Countdown: numbers or nums, target), to test whether
    it is held out; or `query` and `completion`, if the query contains the problem. Left out: held-out problems
    (`is_held_out`; `evaluated` are keys), and, unless `keep_wrong`, completions that are not a correct answer or legal
    move (prover) or the row's playable problem (conjecturer). Raises DataError for an unreadable row."""
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
        pair = {"prompt": row["prompt"], "completion": row["completion"]}
        reason = HELD_OUT if is_held_out(domain, problem, evaluated) else None
        kept.add({**domain.prove_row(problem), **pair}, reason)
        if reason is None:
            answers.append((text, problem))
    if keep_wrong:
        return kept
    right = _right(answers, role, domain)
    fine = [row for row, one in zip(kept.rows, right, strict=True) if one]
    return Kept(fine, kept.read, +(kept.left_out + Counter({WRONG: right.count(False)})))


def _right(answers: Sequence[tuple[str, Any]], role: str, domain: Any) -> list[bool]:
    """Return whether each (text, problem) is right; a prover's answers are verified in one call."""
    texts, problems = [text for text, _ in answers], [problem for _, problem in answers]
    if role == "prover" and in_moves(domain):  # a legal move from where the row's problem begins
        ends = domain.moved(texts, problems, [domain.begin(problem) for problem in problems])
        return [not ended(end) or bool(end.correct) for end in ends]
    if role == "prover":
        return [bool(verdict.correct) for verdict in domain.verify(texts, problems)]
    if role == "guide":
        return [domain.helping.read_review(text) is not None for text in texts]
    proposed = [one.problem for one in domain.parse(texts)]
    if domain.undrawn is not None:
        problems = [domain.undrawn(problem) for problem in problems]
    return [
        one is not None and domain.key(one) == domain.key(parsed) and check.reason == "ok"
        for one, parsed, check in zip(proposed, problems, checked_alone(domain, problems), strict=True)
    ]


def _with_problem(row: Mapping[str, Any], index: int, role: str, domain: Domain[Any]) -> Mapping[str, Any]:
    """Return a row of `query` and `completion` with `prompt` and the problem's columns; any other row unchanged.
    Raises DataError for a row of neither schema."""
    if role != "prover" or "prompt" in row or not isinstance(domain, CountdownDomain):
        return row
    if "query" not in row and "completion" not in row and row:
        raise DataError(
            f"row {index} has the columns {', '.join(map(str, row))}; demonstrations have `prompt`, `completion` and "
            "their problem (`countdown-selfplay dataset --schema solved` writes such), or `query` and `completion`."
        )
    return {**row, **_asked_in(row, "query", index, domain)} if "query" in row else row


def _asked_in(row: Mapping[str, Any], column: str, index: int, domain: Any) -> dict[str, Any]:
    """Return `prompt`, `numbers` and `target` of the problem in the text of `column`."""
    problem: Problem | None = problem_in_prompt(_text_in(row.get(column)))
    if problem is None:
        raise DataError(
            f"row {index}, column '{column}': no problem can be read from {str(row.get(column))[:60]!r}; it must hold "
            "'... numbers [44 19 35] ... equals 98', or the row `numbers` and `target`."
        )
    return dict(domain.prove_row(problem))


def _text_in(value: Any) -> str:
    """Return a text, or the texts of chat messages, one per line."""
    if isinstance(value, list):
        return "\n".join(str(message.get("content")) for message in value if isinstance(message, Mapping))
    return value if isinstance(value, str) else ""


PREFERENCES = ("chosen", "rejected")


def read_preferences(
    rows: Iterable[Mapping[str, Any]], domain: Domain[Any], evaluated: Collection[str] = (), source: str = "the data"
) -> Kept[PreferencePair]:
    """Return the pairs of rows with `chosen`, `rejected` and a problem: its columns, or the text of `prompt` or
    `query`. Held-out problems are left out. Raises DataError, which names the row, for an absent column, or a pair
    of equal texts."""
    kept: Kept[PreferencePair] = Kept()
    for index, row in enumerate(rows):
        try:
            chosen, rejected = (_preference(row, name, index) for name in PREFERENCES)
            if chosen == rejected:
                raise DataError(
                    f"row {index}: `chosen` equals `rejected` ({chosen[:40]!r}) and prefers nothing; leave it out."
                )
            column = "prompt" if row.get("prompt") is not None else "query"
            has_columns = any(row.get(name) is not None for name in ("numbers", "nums", "ground_truth"))
            problem = domain.problem(row if has_columns else _asked_in(row, column, index, domain), index)
        except DataError as error:
            raise DataError(f"{source}, {error}") from None
        pair = PreferencePair(domain.key(problem), domain.prove_row(problem)["prompt"], chosen, rejected)
        kept.add(pair, HELD_OUT if is_held_out(domain, problem, evaluated) else None)
    return kept


def _preference(row: Mapping[str, Any], name: str, index: int) -> str:
    value = row.get(name)
    text = _text_in(value[-1:] if isinstance(value, list) else value)
    if not text:
        raise DataError(
            f"row {index}, column '{name}': absent or without a text; a preference has `chosen` and `rejected`."
        )
    return text


def read_samples(path: str, domain: Domain[Any], evaluated: Collection[str] = ()) -> Kept[ScoredSample]:
    """Return the samples of a JSONL file, without those of held-out problems and those that the token limit cut. A row
    needs `completion` and its problem, as the domain reads it; for Countdown numbers or nums and target, or `problem`,
    the key that `countdown-selfplay eval` writes (its numbers are sorted). The score is the verifier's. Raises
    DataError if a row's `score` differs from it, because it was scored under other rules."""
    kept: Kept[ScoredSample] = Kept()
    for number, row in json_lines(Path(path), "pass a JSONL file with a row per sample"):
        if row.get("record") == "setting":  # the line that `eval` writes first
            continue
        try:
            if row.get("completion") is None:
                raise DataError("column 'completion' is absent.")
            sample, problem = _answer(row, text_of(row["completion"]), domain)
        except DataError as error:
            raise DataError(f"'{path}', line {number}: {str(error).removeprefix('row 0, ')}") from None
        held_out = is_held_out(domain, problem, evaluated)
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


def sample_answers(
    model: Any, tokenizer: Any, problems: Sequence[P], domain: Domain[P], n: int, **sampling: Any
) -> Kept[ScoredSample]:
    """Sample `n` answers to each problem, scored 1 (correct) or 0."""
    prompts = [domain.prove_row(problem)["prompt"] for problem in problems]
    rows = sample_completions(model, tokenizer, prompts, n, stop_strings=domain.stop_strings("prover"), **sampling)
    whole = [[c.text for c in row if not c.truncated] for row in rows]
    samples = [
        ScoredSample(domain.key(problem), prompt, text, float(verdict.correct))
        for problem, prompt, texts, verdicts in zip(
            problems, prompts, whole, verdicts_of(domain, whole, problems), strict=True
        )
        for text, verdict in zip(texts, verdicts, strict=True)
    ]
    drawn = n * len(problems)
    return Kept(samples, drawn, +Counter({UNFINISHED: drawn - len(samples)}))


def scored_samples(
    script: IPOArguments, args: Any, model: Any, tokenizer: Any, evaluated: set[str]
) -> Kept[ScoredSample]:
    """Return the samples of `samples_file`, or answers that the processes sample from the model, each a part."""
    if script.samples_file is not None:
        return read_samples(script.samples_file, script.played, evaluated)
    rank, processes = args.process_index, args.world_size
    how = {**script.sampling, "batch_size": max(args.per_device_eval_batch_size, script.samples_per_problem)}
    problems = problems_to_sample(script, args.seed, evaluated).rows[rank::processes]
    seed = seed_from("ipo", args.seed, rank)
    part = sample_answers(model, tokenizer, problems, script.played, script.samples_per_problem, seed=seed, **how)
    parts = gather_object([part]) if processes > 1 else [part]
    samples = [sample for one in parts for sample in one.rows]
    return Kept(samples, sum(one.read for one in parts), sum((one.left_out for one in parts), Counter()))


def problems_to_sample(script: IPOArguments, seed: int, evaluated: set[str]) -> Kept[Any]:
    """Return problems to sample answers to, without held-out ones. Raises DataError if nothing is left."""
    if script.dataset_name is None:
        made = script.played.random(script.problems, seed, frozenset(evaluated))
        return Kept(made, len(made))
    kept: Kept[Any] = Kept()
    for i, row in enumerate(load_problem_rows(script.dataset_name, script.dataset_train_split)):
        if len(kept.rows) == script.problems:
            break
        problem = script.played.problem(row, i)
        kept.add(problem, HELD_OUT if is_held_out(script.played, problem, evaluated) else None)
    return kept.insist("problems")
