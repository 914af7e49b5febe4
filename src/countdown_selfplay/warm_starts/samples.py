"""Scored samples for preference pairs, of a file or sampled from the model and scored exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from accelerate.utils import broadcast_object_list, gather_object
from trl import ModelConfig

from ..contract.domain import Domain, OpenDomain, P
from ..data.files import load_problem_rows
from ..domains import asked_of, is_held_out, verdicts_of
from ..evaluation.roles import evaluate_prover
from ..evaluation.sampling import sample_completions
from ..policies.build import load_pretrained
from ..random_state import seed_from
from ..rewards import RewardContext, checked_rewards, make_conjecturer_reward
from ..tiny import resolve_model
from .configs import IPOArguments
from .filters import HELD_OUT, UNFINISHED, Kept
from .pairs import ScoredSample, group_of
from .readers import read_samples

ATTEMPTS = 8  # answers per proposal that its solve rate is measured with


def sample_answers(
    model: Any, tokenizer: Any, problems: Sequence[P], domain: Domain[P], n: int, **sampling: Any
) -> Kept[ScoredSample]:
    """`n` answers to each problem, scored 1 (correct) or 0."""
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
    return Kept(found, drawn, +Counter({UNFINISHED: drawn - len(found)}))


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
) -> Kept[ScoredSample]:
    """`n` proposals scored by the conjecturer reward of their solve rate under `prover`, a model with the same
    tokenizer; 0 for those that hold no playable problem, or not the requested kind. Held-out problems are left out."""
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
    kept: Kept[ScoredSample] = Kept()
    for ask, prompt, row in zip(asks, prompts, rows, strict=True):
        verdicts = domain.check(played, [ask] * len(played))
        fitting = {key for key, one in zip(scores, verdicts, strict=True) if one.reason == "ok"}
        for c in row:
            problem = problems[c.text]
            key = None if problem is None else domain.key(problem)
            held_out = problem is not None and is_held_out(domain, problem, evaluated)
            sample = ScoredSample(group_of(ask), prompt, c.text, scores[key] if key in fitting else 0.0)
            kept.add(sample, HELD_OUT if held_out else UNFINISHED if c.truncated else None)
    return kept


def scored_samples(
    script: IPOArguments, args: Any, options: ModelConfig, model: Any, tokenizer: Any, evaluated: set[str]
) -> Kept[ScoredSample]:
    """The samples of the file, or drawn from the model: answers are shared out over the processes, proposals (whose
    solve rates must agree for equal ones) are drawn by the first."""
    if script.samples_file is not None:
        return read_samples(script.samples_file, script.role, script.played, evaluated)
    rank, processes = args.process_index, args.world_size
    how = {**script.sampling, "batch_size": max(args.per_device_eval_batch_size, script.samples_per_problem)}
    if script.role == "conjecturer":
        found: list[Any] = [None]
        if rank == 0:
            prover = model if script.prover_model_name_or_path is None else _prover(script, options, model.device)
            n, reward, seed = script.proposals, script.conjecturer_reward, seed_from("ipo", args.seed)
            found[0] = sample_proposals(model, tokenizer, prover, script.played, n, reward, seed, evaluated, **how)
        if processes > 1:
            broadcast_object_list(found)
        return found[0]
    own = problems_to_sample(script, args.seed, evaluated).rows[rank::processes]
    seed = seed_from("ipo", args.seed, rank)
    part = sample_answers(model, tokenizer, own, script.played, script.samples_per_problem, seed=seed, **how)
    parts = gather_object([part]) if processes > 1 else [part]
    samples = [sample for one in parts for sample in one.rows]
    return Kept(samples, sum(one.read for one in parts), sum((one.left_out for one in parts), Counter()))


def _prover(script: IPOArguments, options: ModelConfig, device: Any) -> Any:
    kwargs = {"dtype": options.dtype, "attn_implementation": options.attn_implementation}
    return load_pretrained(resolve_model(script.prover_model_name_or_path), kwargs, "merge").to(device)


def problems_to_sample(script: IPOArguments, seed: int, evaluated: set[str]) -> Kept[Any]:
    """Problems to draw answers on, without held-out ones; DataError if nothing is left."""
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
