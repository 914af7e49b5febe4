"""The figures of the ladder's three models: episodes on held-out problems by size, and proposals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from typing import Any

from countdown_selfplay.countdown import CountdownDomain, Problem, Verdict
from countdown_selfplay.countdown.guide import moves_between
from countdown_selfplay.countdown.helping import HELP_PROMPTS
from countdown_selfplay.countdown.planted import planted_problems
from countdown_selfplay.countdown.prompts import CONJECTURER_PROMPTS
from countdown_selfplay.evaluation.sampling import sample_completions
from countdown_selfplay.random_state import seed_from
from countdown_selfplay.statistics.bootstrap import SHARE, Estimate, bootstrap_mean
from countdown_selfplay.statistics.pass_at_k import pass_at_k_array
from countdown_selfplay.tiny import LADDER_SPEC

from ..warm_start import torch_threads
from .warm_start import TARGET_OPERANDS

DOMAIN = CountdownDomain.ladder()
"""The game that the two models play."""

_PAIRS = 24  # held-out problems of two numbers: there are no more

SIZES = (2, 3, 4, 5, 6, 7, 8)
MOVE_TOKENS = 6
"""A move has five tokens, and the end is one."""
PROPOSAL_TOKENS = 24
"""Twenty numbers, `=`, the target, the end, and one to spare."""
_BATCH = 1024


@dataclass(frozen=True)
class Rung:
    """The prover on held-out problems of one size: `n` episodes each, at temperature 1."""

    operands: int
    n: int
    correct: tuple[int, ...]
    pass_at: dict[int, Estimate]


@dataclass(frozen=True)
class Proposals:
    """Shares of `n` proposals, and how many of the parsed ones have each size."""

    n: int
    parseable: Estimate
    in_range: Estimate
    new: Estimate
    """In range, of the train side, and not proposed before."""
    sizes: dict[int, int]


def measure(
    model: Any, tokenizer: Any, problems: int, samples: int, seed: int, sizes: Sequence[int] = SIZES
) -> list[Rung]:
    """A rung for each of `sizes`."""
    found = []
    for k in sizes:
        count = min(problems, _PAIRS) if k == 2 else problems
        drawn = planted_problems(count, replace(LADDER_SPEC, operands=(k,)), seed, split="heldout")
        solved = play(model, tokenizer, [problem for problem in drawn for _ in range(samples)], seed)
        correct = tuple(sum(solved[i * samples : (i + 1) * samples]) for i in range(count))
        pass_at = {
            k: bootstrap_mean(pass_at_k_array(correct, samples, k), bounds=SHARE) for k in (1, 16) if k <= samples
        }
        found.append(Rung(k, samples, correct, pass_at))
    return found


def play(model: Any, tokenizer: Any, problems: Sequence[Problem], seed: int = 0) -> list[bool]:
    """Whether an episode on each of the problems is won; a problem that is listed twice is played twice."""
    states = [DOMAIN.begin(problem) for problem in problems]
    won = [False] * len(problems)
    live, turn = list(range(len(problems))), 0
    while live:
        asked = [problems[i] for i in live]
        prompts = [DOMAIN.move_row(problem, states[i])["prompt"] for i, problem in zip(live, asked, strict=True)]
        with torch_threads(1):
            written = sample_completions(
                model,
                tokenizer,
                prompts,
                1,
                max_new_tokens=MOVE_TOKENS,
                batch_size=_BATCH,
                seed=seed_from("ladder", seed, turn),
            )
        after = DOMAIN.moved([row[0].text for row in written], asked, [states[i] for i in live])
        for i, found in zip(live, after, strict=True):
            if isinstance(found, Verdict):
                won[i] = found.correct
            else:
                states[i] = found
        live, turn = [i for i, found in zip(live, after, strict=True) if not isinstance(found, Verdict)], turn + 1
    return won


def propose(model: Any, tokenizer: Any, n: int, seed: int = 0) -> Proposals:
    """`n` proposals at temperature 1."""
    with torch_threads(1):
        (written,) = sample_completions(
            model,
            tokenizer,
            [DOMAIN.propose_row(3)["prompt"]],
            n,
            max_new_tokens=PROPOSAL_TOKENS,
            batch_size=_BATCH,
            seed=seed,
        )
    parsed = [proposal.problem for proposal in DOMAIN.parse([completion.text for completion in written])]
    seen: set[str] = set()
    new = []
    for problem in parsed:
        good = problem is not None and DOMAIN.in_range(problem) and not DOMAIN.is_held_out(problem)
        new.append(good and problem is not None and problem.key not in seen)
        seen.update([] if problem is None else [problem.key])
    shares = (
        [problem is not None for problem in parsed],
        [problem is not None and DOMAIN.in_range(problem) for problem in parsed],
        new,
    )
    sizes = Counter(len(problem.numbers) for problem in parsed if problem is not None)
    return Proposals(
        n, *(bootstrap_mean([float(x) for x in share], bounds=SHARE) for share in shares), dict(sorted(sizes.items()))
    )


def answer_requests(model: Any, tokenizer: Any, n: int, seed: int = 0) -> dict[str, Estimate]:
    """Shares of `n` texts for each of three requests, at temperature 1: any problem; one of a size, the ladder's sizes
    in turn; a help with a held-out target of 4 to 9 numbers, each target once. A help is playable if it is in range
    and no copy of the target."""
    sizes = list(islice(cycle(LADDER_SPEC.operands), n))
    targets = planted_problems(n, replace(LADDER_SPEC, operands=TARGET_OPERANDS), seed, split="heldout")
    any_one = _asked(model, tokenizer, [DOMAIN.propose_row(3)["prompt"]] * n, seed)
    sized = _asked(model, tokenizer, [CONJECTURER_PROMPTS["compact"](size, LADDER_SPEC) for size in sizes], seed)
    helps = _asked(model, tokenizer, [HELP_PROMPTS["compact"](target, LADDER_SPEC) for target in targets], seed)
    sized_pairs = list(zip(sizes, sized, strict=True))
    help_pairs = list(zip(targets, helps, strict=True))
    shares = {
        "any: parseable": [found is not None for found in any_one],
        "size: parseable": [found is not None for found in sized],
        "size: parseable, of that size": [found is not None and len(found.numbers) == k for k, found in sized_pairs],
        "help: parseable": [found is not None for found in helps],
        "help: playable": [
            found is not None
            and found.key != target.key
            and DOMAIN.check([found], [{"target": target}])[0].reason == "ok"
            for target, found in help_pairs
        ],
        "help: same target value": [found is not None and found.target == t.target for t, found in help_pairs],
        "help: a later state": [
            found is not None and moves_between(t, found, DOMAIN.value_high) is not None for t, found in help_pairs
        ],
    }
    return {name: bootstrap_mean([float(x) for x in share], bounds=SHARE) for name, share in shares.items()}


def _asked(model: Any, tokenizer: Any, prompts: Sequence[Any], seed: int) -> list[Problem | None]:
    """The problem in one text for each prompt; None where there is none."""
    with torch_threads(1):
        written = sample_completions(
            model, tokenizer, prompts, 1, max_new_tokens=PROPOSAL_TOKENS, batch_size=_BATCH, seed=seed
        )
    return [proposal.problem for proposal in DOMAIN.parse([row[0].text for row in written])]


def to_dict(rungs: Sequence[Rung], proposals: Proposals, requests: Mapping[str, Estimate]) -> dict[str, Any]:
    """Plain JSON values."""
    asked = {name: asdict(share) for name, share in requests.items()}
    return {"prover": [asdict(rung) for rung in rungs], "conjecturer": asdict(proposals), "asked": asked}
