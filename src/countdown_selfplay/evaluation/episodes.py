"""Episodes of a domain in moves, sampled from a model: one generation for each move of all that are still played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..contract.domain import P, Row, in_moves
from ..contract.episodes import play_out
from ..contract.round import Rollout
from ..distributed.processes import ALONE, Processes
from ..random_state import seed_from
from .sampling import Completion, sample_completions

BATCHES = 8
"""Batches of answers that are played together where an evaluation is cut into parts: later moves have few rows."""


class Played(NamedTuple):
    """text: the moves, one a line. tokens: of all of them. truncated: the token budget cut one of them."""

    text: str
    verdict: Any
    tokens: int
    truncated: bool


def answers_at_once(domain: Any, batch_size: int) -> int:
    """Of how many answers the parts of a long evaluation are."""
    return batch_size * BATCHES if in_moves(domain) else batch_size


def sample_episodes(
    model: Any,
    tokenizer: Any,
    problems: Sequence[P],
    domain: Any,
    n: int,
    *,
    seed: int = 0,
    processes: Processes = ALONE,
    progress: Callable[[int, int], None] | None = None,
    **sampling: Any,
) -> list[list[Played]]:
    """`n` episodes of each problem: problems x n. `sampling`: as in sample_completions, for each move, whose generator
    is seeded by (seed, move).

    `processes` play problems of their own, and meet only where they must take the same steps of generation (in_step);
    then one that has no episode left goes on with the moves of another.
    """
    if not problems and not processes.in_step:
        return []
    kept: list[list[Completion]] = []

    def sample(move: int, rows: list[Row], each: int) -> Rollout:
        asked = rows
        if processes.in_step:
            most = max(processes.gather([len(rows)]))
            spare = next(row for row in processes.gather([rows[:1]]) if row)
            asked = rows + spare * (most - len(rows))
        total, live = len(problems) * n, len(rows) * each

        def told(done: int, of: int) -> None:
            """An episode of this move has done as large a part as the move is of the longest."""
            if progress is not None:
                progress(int(total - live + live * (move + done / of) / domain.most_moves), total)

        drawn = sample_completions(
            model,
            tokenizer,
            [row["prompt"] for row in asked],
            each,
            seed=seed_from(seed, "move", move),
            in_step=processes.in_step,
            progress=told,
            **sampling,
        )
        found = [completion for group in drawn[: len(rows)] for completion in group]
        kept.append(found)
        return Rollout("prover", rows, [c.text for c in found], each)

    def anyone(mine: bool) -> bool:
        return any(processes.gather([mine])) if processes.in_step else mine

    rows = [domain.prove_row(problem) for problem in problems]
    episodes = play_out(domain, "prover", rows, problems, n, sample, anyone)
    tokens, cut = [0] * len(episodes.texts), [False] * len(episodes.texts)
    for completions, own in zip(kept, episodes.episode_of, strict=True):
        for completion, i in zip(completions, own, strict=True):
            tokens[i] += completion.tokens
            cut[i] |= completion.truncated
    if progress is not None and episodes.texts:
        progress(len(episodes.texts), len(episodes.texts))
    found = [*map(Played, episodes.texts, episodes.verdicts or [], tokens, cut)]
    return [found[i : i + n] for i in range(0, len(found), n)]
