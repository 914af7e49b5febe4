"""pass@k on held-out problems while training, without touching the trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..countdown import Problem, problem_from_row
from ..errors import ConfigError
from ..evaluation.sampling import evaluating, sample_texts
from ..random_state import seed_from
from ..statistics.pass_at_k import pass_at_k

if TYPE_CHECKING:
    from .trainer import JointConjecturerProverTrainer


def evaluate_in_training(
    trainer: JointConjecturerProverTrainer, dataset: Iterable[Mapping[str, Any]] | None, prefix: str
) -> dict[str, float]:
    """`<prefix>_pass@k` for k = 1, 2, 4, ... up to `num_generations_eval` answers per problem, by the verifier's bit
    alone.

    The processes share the problems out. Sampling is the prover's own setting; its seed depends on the step only.
    """
    rows: Any = trainer.eval_dataset if dataset is None else dataset
    if rows is None:
        raise ConfigError("evaluate() needs problems: pass `eval_dataset` to the trainer or to this call.")
    problems = [problem_from_row(row, index) for index, row in enumerate(rows)]
    correct, several, truncated = _count_correct(trainer, problems)
    n = trainer.num_generations_eval
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= n]
    metrics = {f"{prefix}_pass@{k}": sum(pass_at_k(n, c, k) for c in correct) / len(correct) for k in ks}
    metrics[f"{prefix}_several_answers_rate"] = several / (n * len(correct))
    metrics[f"{prefix}_truncated_rate"] = truncated / (n * len(correct))
    metrics[f"{prefix}_problems"] = float(len(correct))
    # In training mode TRL would put what the rounds have collected for the next training log (time/*) into this one.
    with evaluating(trainer.model):
        trainer.log(dict(metrics))
    trainer.control = trainer.callback_handler.on_evaluate(trainer.args, trainer.state, trainer.control, metrics)
    return metrics


def _count_correct(trainer: JointConjecturerProverTrainer, problems: list[Problem]) -> tuple[list[int], int, int]:
    """Correct answers per problem; answers with several tags, and cut ones."""
    settings, domain, args = trainer.roles["prover"], trainer.domain, trainer.args
    with trainer.sampling_as("prover"), trainer.engine.whole_weights(trainer.model_wrapped):
        texts, truncated = sample_texts(
            trainer.policies.module,
            trainer.processing_class,
            [domain.prove_row(problem)["prompt"] for problem in problems],
            trainer.num_generations_eval,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            max_new_tokens=settings.max_completion_length,
            batch_size=args.per_device_eval_batch_size,
            seed=seed_from(args.seed, "eval", trainer.state.global_step),
            stop_strings=trainer.stops("prover"),
            processes=trainer.processes,
        )
    n = trainer.num_generations_eval
    verdicts = domain.verify([text for answers in texts for text in answers], [p for p in problems for _ in range(n)])
    correct = [sum(v.correct for v in verdicts[i : i + n]) for i in range(0, len(verdicts), n)]
    return correct, sum(v.n_answers > 1 for v in verdicts), sum(map(sum, truncated))
