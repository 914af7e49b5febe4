"""The figures of the ladder's two models: episodes on held-out problems by size, and proposals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from countdown_selfplay.countdown import Problem, heldout_key
from countdown_selfplay.countdown.planted import VALUE_HIGH, after, combine, planted_problems
from countdown_selfplay.countdown.proposals import parse_proposal
from countdown_selfplay.evaluation.sampling import sample_completions
from countdown_selfplay.random_state import seed_from
from countdown_selfplay.statistics.bootstrap import SHARE, Estimate, bootstrap_mean
from countdown_selfplay.statistics.pass_at_k import pass_at_k_array
from countdown_selfplay.tiny import LADDER_SPEC

from ..warm_start import torch_threads

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
        drawn = planted_problems(problems, replace(LADDER_SPEC, operands=(k,)), seed, split="heldout")
        solved = play(model, tokenizer, [problem for problem in drawn for _ in range(samples)], seed)
        correct = tuple(sum(solved[i * samples : (i + 1) * samples]) for i in range(problems))
        pass_at = {
            k: bootstrap_mean(pass_at_k_array(correct, samples, k), bounds=SHARE) for k in (1, 16) if k <= samples
        }
        found.append(Rung(k, samples, correct, pass_at))
    return found


def play(model: Any, tokenizer: Any, problems: Sequence[Problem], seed: int = 0) -> list[bool]:
    """Whether an episode on each of the problems is won; a problem that is listed twice is played twice."""
    states = [list(problem.numbers) for problem in problems]
    won = [False] * len(problems)
    live = list(range(len(problems)))
    turn = 0
    while live:
        prompts = [f"{' '.join(map(str, states[i]))} : {problems[i].target}" for i in live]
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
        going = []
        for i, (completion,) in zip(live, written, strict=True):
            left = None if completion.truncated else moved(completion.text, states[i])
            if left is None:
                continue
            states[i] = left
            if len(left) > 1:
                going.append(i)
            else:
                won[i] = left[0] == problems[i].target
        live, turn = going, turn + 1
    return won


def moved(text: str, numbers: Sequence[int]) -> list[int] | None:
    """The numbers after the move `text`; None where it is no legal and true move."""
    match text.split():
        case [a, ("+" | "-" | "*" | "/") as op, b, "=", value] if a.isdigit() and b.isdigit():
            if str(combine(int(a), op, int(b), VALUE_HIGH)) != value:
                return None
            try:
                return after(numbers, int(a), int(b), int(value))
            except ValueError:
                return None
    return None


def propose(model: Any, tokenizer: Any, n: int, seed: int = 0) -> Proposals:
    """`n` proposals at temperature 1."""
    with torch_threads(1):
        (written,) = sample_completions(
            model, tokenizer, ["propose :"], n, max_new_tokens=PROPOSAL_TOKENS, batch_size=_BATCH, seed=seed
        )
    parsed = [None if c.truncated else parse_proposal(c.text, "compact").problem for c in written]
    seen: set[str] = set()
    new = []
    for problem in parsed:
        good = problem is not None and LADDER_SPEC.admits(problem) and not heldout_key(problem.key)
        new.append(good and problem is not None and problem.key not in seen)
        seen.update([] if problem is None else [problem.key])
    shares = (
        [problem is not None for problem in parsed],
        [problem is not None and LADDER_SPEC.admits(problem) for problem in parsed],
        new,
    )
    sizes = Counter(len(problem.numbers) for problem in parsed if problem is not None)
    return Proposals(
        n, *(bootstrap_mean([float(x) for x in share], bounds=SHARE) for share in shares), dict(sorted(sizes.items()))
    )


def to_dict(rungs: Sequence[Rung], proposals: Proposals) -> dict[str, Any]:
    """Plain JSON values."""
    return {"prover": [asdict(rung) for rung in rungs], "conjecturer": asdict(proposals)}
