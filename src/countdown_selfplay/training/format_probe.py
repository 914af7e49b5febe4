"""Before a run in moves: can the provers write a move at all? A warm start that has never seen the format earns
nothing, and under expert iteration, whose right answers buy the steps, it would play all rounds without one."""

from __future__ import annotations

from typing import Any

from ..contract.domain import in_moves
from ..errors import ConfigError
from ..evaluation.sampling import sample_texts
from ..random_state import seed_from
from .host import Host

EACH = 4
"""First moves to each problem of the probe."""


def probe_format(trainer: Host) -> None:
    """ConfigError where not one of a prover's first `format_probe` moves, on problems of the lowest rung, is legal.
    Sampled as in training, with generators of its own, so that a run is the same with it and without; once a run, not
    on a resume. Called by all processes, which share the moves out and see all of them."""
    domain, asked = trainer.domain, trainer.args.format_probe
    if trainer.format_probed or not asked or not in_moves(domain) or not _says_its_format(domain):
        return
    rung, each = min(domain.rungs), min(EACH, asked)
    problems = domain.random_of_rung(-(-asked // each), rung, seed_from(trainer.args.seed, "probe"), frozenset())
    for player, settings in trainer.roles.items():
        if settings.kind != trainer.args.solver.kind:
            continue
        texts = _first_moves(trainer, player, problems, each)
        own = [problem for problem in problems for _ in range(each)]
        found = domain.moved(texts, own, [domain.begin(problem) for problem in own])
        verdicts = [result for result in found if hasattr(result, "correct")]
        if verdicts and len(verdicts) == len(found) and not any(map(domain.was_legal, verdicts)):
            raise ConfigError(_refusal(player, rung, texts, verdicts, domain.move_format))
    trainer.format_probed = True


def _says_its_format(domain: Any) -> bool:
    """Is it a ProbedDomain? Of another nobody knows whether a wrong move was one."""
    return all(hasattr(domain, name) for name in ("move_format", "was_legal", "rungs", "random_of_rung"))


def _first_moves(trainer: Host, player: str, problems: list[Any], each: int) -> list[str]:
    """`each` first moves to each problem, side by side; all of them on every process."""
    settings = trainer.roles[player]
    with trainer.sampling_as(player), trainer.engine.whole_weights(trainer.model_wrapped):
        texts, _ = sample_texts(
            trainer.policies.module,
            trainer.processing_class,
            [trainer.domain.prove_row(problem)["prompt"] for problem in problems],
            each,
            processes=trainer.processes,
            seed=seed_from(trainer.args.seed, "probe", player),
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            max_new_tokens=settings.max_completion_length,
            batch_size=trainer.args.per_device_eval_batch_size,
            stop_strings=trainer.stops(player),
        )
    return [text for group in texts for text in group]


def _refusal(player: str, rung: int, texts: list[str], verdicts: list[Any], expected: str) -> str:
    seen = texts[0].strip()
    shown = seen if len(seen) <= 80 else f"{seen[:77]}..."
    return (
        f"The {player} has not learned to answer in moves: of its first {len(texts)} moves, on problems of rung "
        f"{rung}, none is legal. It wrote {shown!r} ({verdicts[0].reason}); expected is {expected}. Warm-start it "
        "with `countdown-selfplay sft --answers moves` and the prompt of this run, or set format_probe to 0 to train "
        "all the same."
    )
