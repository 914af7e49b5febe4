"""Scored samples for preference pairs: read from a file, or sampled from the model and scored exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..contract.domain import Domain, OpenDomain, P
from ..countdown import CountdownDomain, problem_of_key
from ..data.jsonl import json_lines
from ..domains import asked_of, is_held_out, verdicts_of
from ..errors import DataError
from ..evaluation.roles import evaluate_prover
from ..evaluation.sampling import sample_completions
from ..evaluation.token_ids import text_of
from ..random_state import seed_from
from ..rewards import RewardContext, checked_rewards, make_conjecturer_reward
from .filters import HELD_OUT
from .pairs import ScoredSample

UNFINISHED = "cut off"
"""Samples that the token budget cut are in no pair: a chosen one would teach not to end."""

ATTEMPTS = 8  # answers per proposal that its solve rate is measured with


def read_samples(
    path: str, role: str, domain: OpenDomain[Any], evaluated: Collection[str] = ()
) -> tuple[list[ScoredSample], int, Counter[str]]:
    """(samples, rows read, reason -> rows left out) of a JSONL file.

    For the prover a row needs `completion` and its problem, as the domain reads it; for Countdown numbers or nums and
    target, or `problem`, the key that `countdown-selfplay eval` writes (its numbers are sorted). The score is the
    verifier's own; a `score` in the row must agree with it, or the row was scored under other rules (DataError). For
    the conjecturer a row needs `completion`, what was asked for (Countdown: `operands`) and `score`, the reward of the
    proposal.
    """
    found: list[ScoredSample] = []
    left_out: Counter[str] = Counter()
    read = 0
    for number, row in json_lines(Path(path), "pass a JSONL file with a row per sample"):
        if row.get("record") == "setting":  # the line that `eval` writes first
            continue
        read += 1
        try:
            if row.get("completion") is None:
                raise DataError("column 'completion' is absent.")
            text = text_of(row["completion"])
            sample, problem = (_answer if role == "prover" else _proposal)(row, text, domain)
        except DataError as error:
            raise DataError(f"'{path}', line {number}: {str(error).removeprefix('row 0, ')}") from None
        if problem is not None and is_held_out(domain, problem, evaluated):
            left_out[HELD_OUT] += 1
        elif row.get("truncated"):
            left_out[UNFINISHED] += 1
        else:
            found.append(sample)
    return found, read, left_out


def sample_answers(
    model: Any, tokenizer: Any, problems: Sequence[P], domain: Domain[P], n: int, **sampling: Any
) -> tuple[list[ScoredSample], int, Counter[str]]:
    """`n` answers to each problem, scored 1 (correct) or 0; (samples, answers drawn, those left out)."""
    prompts = [domain.prove_row(problem)["prompt"] for problem in problems]
    rows = sample_completions(model, tokenizer, prompts, n, stop_strings=domain.stop_strings("prover"), **sampling)
    whole = [[c.text for c in row if not c.truncated] for row in rows]
    found = [
        ScoredSample(domain.key(problem), prompt, text, float(verdict.correct))
        for problem, prompt, texts, verdicts in zip(
            problems, prompts, whole, verdicts_of(domain, whole, problems), strict=True
        )
        for text, verdict in zip(texts, verdicts, strict=True)
    ]
    drawn = n * len(problems)
    return found, drawn, Counter({UNFINISHED: drawn - len(found)} if drawn > len(found) else {})


def sample_proposals(
    model: Any,
    tokenizer: Any,
    prover: Any,
    domain: OpenDomain[Any],
    n: int,
    reward: str,
    seed: int,
    evaluated: Collection[str] = (),
    **sampling: Any,
) -> tuple[list[ScoredSample], int, Counter[str]]:
    """`n` proposals scored by the conjecturer reward of their solve rate under `prover`, a model with the same
    tokenizer; 0 for those that hold no playable problem, or not what was asked for. Held-out problems are left out."""
    asks = asked_of(domain)
    each = -(-n // len(asks))
    prompts = [domain.propose_row(**ask)["prompt"] for ask in asks]
    stops = domain.stop_strings("conjecturer")
    rows = sample_completions(model, tokenizer, prompts, each, stop_strings=stops, seed=seed, **sampling)
    problems = {c.text: domain.parse([c.text])[0].problem for row in rows for c in row}
    distinct = {domain.key(p): p for p in problems.values() if p is not None}
    checked = domain.check(list(distinct.values()), [None] * len(distinct))
    playable = [p for p, found in zip(distinct.values(), checked, strict=True) if found.reason == "ok"]
    played = [problem for problem in playable if not is_held_out(domain, problem, evaluated)]
    rates = np.zeros(0)
    if played:
        seed = seed_from("attempts", seed)
        attempts = evaluate_prover(prover, tokenizer, played, domain, ATTEMPTS, (), seed=seed, **sampling)
        rates = np.array(attempts.correct) / ATTEMPTS
    rewards = checked_rewards(make_conjecturer_reward(reward), rates, RewardContext(attempts=ATTEMPTS))
    scores = {domain.key(problem): float(value) for problem, value in zip(played, rewards, strict=True)}
    as_asked = []  # for each thing that is asked for the keys of the problems that are it
    for ask in asks:
        checked = domain.check(played, [ask] * len(played))
        as_asked.append({key for key, one in zip(scores, checked, strict=True) if one.reason == "ok"})
    found: list[ScoredSample] = []
    left_out: Counter[str] = Counter()
    for ask, fitting, prompt, row in zip(asks, as_asked, prompts, rows, strict=True):
        for c in row:
            problem = problems[c.text]
            if problem is not None and is_held_out(domain, problem, evaluated):
                left_out[HELD_OUT] += 1
            elif c.truncated:
                left_out[UNFINISHED] += 1
            else:
                key = None if problem is None else domain.key(problem)
                score = scores[key] if key in fitting else 0.0
                found.append(ScoredSample(_group(ask), prompt, c.text, score))
    return found, each * len(asks), left_out


def _group(ask: Mapping[str, Any]) -> str:
    """Proposals are compared with those that were asked for the same."""
    return " ".join(str(value) for value in ask.values())


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
            raise DataError(f"column '{name}' is absent: it says what was asked for, such as {like!r}.")
    problem, score = domain.parse([text])[0].problem, float(row["score"])
    if problem is None and score > 0:
        raise DataError(f"score {score} for a text that holds no problem; set `conjecturer_prompt` to what it is in.")
    ask = {name: type(like)(row[name]) for name, like in domain.asks[0].items()}
    return ScoredSample(_group(ask), domain.propose_row(**ask)["prompt"], text, score), problem
