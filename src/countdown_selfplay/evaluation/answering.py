"""Sampling answers batch by batch and judging them: the part of an evaluation that needs a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..contract.domain import Domain, P
from ..random_state import seed_from
from .answers import Answer, batch_key, batches_of, identity, operands_of, reason_of
from .sampling import sample_completions


def answer_batches(
    model: Any,
    tokenizer: Any,
    problems: Sequence[P],
    domain: Domain[P],
    n: int,
    *,
    seed: int = 0,
    batch_size: int = 1024,
    skip: int = 0,
    strata: Sequence[str | None] | None = None,
    **sampling: Any,
) -> Iterator[list[Answer]]:
    """The judged answers of one batch of problems after another; the first `skip` batches are left out.

    A batch's answers depend on its problems, `n`, `seed`, `batch_size` and `sampling` (temperature, top_p, top_k,
    max_new_tokens), and on nothing that came before. `strata`: a label per problem.
    """
    prompts = [domain.prove_row(problem)["prompt"] for problem in problems]
    identities = [identity(domain, problem) for problem in problems]
    for batch in batches_of(prompts, n, batch_size)[skip:]:
        found = sample_completions(
            model,
            tokenizer,
            [prompts[i] for i in batch],
            n,
            seed=seed_from("answers", seed, *batch_key(identities, batch)),
            batch_size=batch_size,
            stop_strings=domain.stop_strings("prover"),
            **sampling,
        )
        rows = []
        for index, completions in zip(batch, found, strict=True):
            problem = problems[index]
            for sample, completion in enumerate(completions):
                verdict = domain.verify([completion.text], [problem])[0]
                rows.append(
                    Answer(
                        index=index,
                        problem=domain.key(problem),
                        operands=operands_of(problem),
                        sample=sample,
                        completion=completion.text,
                        score=verdict.score,
                        reason=reason_of(verdict),
                        answer=getattr(verdict, "vote", None),
                        tags=getattr(verdict, "n_answers", 1),
                        tokens=completion.tokens,
                        truncated=completion.truncated,
                        stratum=None if strata is None else strata[index],
                    )
                )
        yield rows
