"""The evaluations of the Critic-Discernment Game's paper: stepwise error detection, self-correction, win rates between
iterations (Wang et al. 2025, sections 4.2, 4.3 and 5.4); the model that is evaluated as a function from rows to texts.
NumPy alone at import; what samples loads torch on first use."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...contract.domain import Row


class Reply(NamedTuple):
    """A text, and whether the token budget cut it."""

    text: str
    truncated: bool = False


Policy = Callable[[Sequence[Row], int, int, bool], list[list[Reply]]]
"""(rows with a `prompt`, n, seed, greedy) -> rows x n replies; greedy: at temperature 0, whatever the policy's own."""


def model_policy(model: Any, tokenizer: Any, domain: Any, role: str = "prover", **sampling: Any) -> Policy:
    """A model that samples as `sampling` says: arguments of `sample_completions`, and the domain's stop strings where
    it has none."""
    from ...evaluation.sampling import sample_completions, with_stops

    def replies(rows: Sequence[Row], n: int, seed: int, greedy: bool) -> list[list[Reply]]:
        how = {**sampling, "temperature": 0.0} if greedy else sampling
        prompts = [row["prompt"] for row in rows]
        drawn = sample_completions(model, tokenizer, prompts, n, seed=seed, **with_stops(how, domain, role))
        return [[Reply(c.text, c.truncated) for c in row] for row in drawn]

    return replies
