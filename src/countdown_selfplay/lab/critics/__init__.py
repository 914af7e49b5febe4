"""Evaluations of the Critic-Discernment Game's paper (Wang et al. 2025, sections 4.2, 4.3 and 5.4), of models as
functions from rows to texts. Imports only NumPy; sampling loads torch on first use."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...contract.domain import Row


class Reply(NamedTuple):
    """Text, and whether the token budget cut it."""

    text: str
    truncated: bool = False


Policy = Callable[[Sequence[Row], int, int, bool], list[list[Reply]]]
"""(rows with a `prompt`, n, seed, greedy) -> rows x n replies; greedy: at temperature 0."""


def model_policy(model: Any, tokenizer: Any, domain: Any, role: str = "prover", **sampling: Any) -> Policy:
    """Return a policy of a model. `sampling`: of `sample_completions`; default stop strings are the domain's."""
    from ...evaluation.sampling import sample_completions, with_stops

    def replies(rows: Sequence[Row], n: int, seed: int, greedy: bool) -> list[list[Reply]]:
        how = {**sampling, "temperature": 0.0} if greedy else sampling
        prompts = [row["prompt"] for row in rows]
        drawn = sample_completions(model, tokenizer, prompts, n, seed=seed, **with_stops(how, domain, role))
        return [[Reply(c.text, c.truncated) for c in row] for row in drawn]

    return replies
