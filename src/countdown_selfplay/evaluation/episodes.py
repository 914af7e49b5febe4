"""Episodes of a domain whose answers are moves, with one generation per move of all unfinished episodes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..contract.domain import P, Row, in_moves
from ..contract.episodes import play_out
from ..contract.round import Rollout
from ..distributed.processes import ALONE, Processes
from ..domains import verdicts_of
from ..random_state import seed_from
from .sampling import Completion, sample_completions, shared_completions

BATCHES = 8
"""Number of batches of answers that are sampled together in moves, because later moves have few rows."""


class Played(NamedTuple):
    """Result of an episode. text: moves, one per line. tokens: total number. truncated: whether a move was cut."""

    text: str
    verdict: Any
    tokens: int
    truncated: bool


def answers_at_once(domain: Any, batch_size: int) -> int:
    """Return the number of answers sampled together: `batch_size`, in moves BATCHES times as many."""
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
    """Sample `n` episodes of each problem: problems x n. `sampling`: as in sample_completions, for each move, whose
    generator is seeded by (seed, move). Each process passes its part of the problems; if `processes` generate in step,
    a process without unfinished episodes takes part in the others' moves."""
    if not problems and not processes.in_step:
        return []
    kept: list[list[Completion]] = []

    def sample(move: int, rows: list[Row], each: int) -> Rollout:
        padded = rows
        if processes.in_step:
            most = max(processes.gather([len(rows)]))
            spare = next(row for row in processes.gather([rows[:1]]) if row)
            padded = rows + spare * (most - len(rows))
        total, live = len(problems) * n, len(rows) * each

        def told(done: int, of: int) -> None:
            """Report progress: an unfinished episode counts as its number of moves over `domain.most_moves`."""
            if progress is not None:
                progress(int(total - live + live * (move + done / of) / domain.most_moves), total)

        drawn = sample_completions(
            model,
            tokenizer,
            [row["prompt"] for row in padded],
            each,
            seed=seed_from(seed, "move", move),
            in_step=processes.in_step,
            progress=told,
            **sampling,
        )
        texts = [completion for group in drawn[: len(rows)] for completion in group]
        kept.append(texts)
        return Rollout("prover", rows, [c.text for c in texts], each)

    def anyone(mine: bool) -> bool:
        return any(processes.gather([mine])) if processes.in_step else mine

    rows = [domain.prove_row(problem) for problem in problems]
    episodes = play_out(domain, "prover", rows, problems, n, sample, anyone)
    if progress is not None and episodes.texts:
        progress(len(episodes.texts), len(episodes.texts))
    played = [
        Played(text, verdict, sum(c.tokens for c in moves), any(c.truncated for c in moves))
        for text, verdict, moves in zip(
            episodes.texts, episodes.verdicts or [], episodes.by_episode(kept), strict=True
        )
    ]
    return [played[i : i + n] for i in range(0, len(played), n)]


def sample_answers(
    model: Any,
    tokenizer: Any,
    problems: Sequence[P],
    domain: Any,
    n: int,
    *,
    seed: int = 0,
    processes: Processes = ALONE,
    **sampling: Any,
) -> list[list[Played]]:
    """Sample and judge `n` answers (in moves: episodes) to each problem: problems x n. `processes` share the problems,
    and each returns all answers. `sampling`: as in sample_completions."""
    sampling |= {"processes": processes}
    if in_moves(domain):
        mine, process_seed = processes.deal(problems), processes.seed(seed)
        played = sample_episodes(model, tokenizer, mine, domain, n, seed=process_seed, **sampling)
        return processes.collect(played, len(problems))
    prompts = [domain.prove_row(problem)["prompt"] for problem in problems]
    rows = shared_completions(model, tokenizer, prompts, n, seed=seed, **sampling)
    verdicts = verdicts_of(domain, [[c.text for c in row] for row in rows], problems)
    return [
        [Played(c.text, verdict, c.tokens, c.truncated) for c, verdict in zip(*pair, strict=True)]
        for pair in zip(rows, verdicts, strict=True)
    ]


def rungs_of(domain: Any, problems: Sequence[Any]) -> list[int] | None:
    """Return the rung of each problem; None for a domain without rungs, and if all problems are of one rung."""
    rung = domain.rung
    rungs = None if rung is None else [int(rung(problem)) for problem in problems]
    return rungs if rungs is not None and len(set(rungs)) > 1 else None
