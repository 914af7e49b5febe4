"""pass@k on held-out problems while training, without touching the trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .countdown import Problem, problem_from_row
from .errors import ConfigError
from .evaluation.pass_at_k import pass_at_k
from .evaluation.sampling import sample_texts
from .random_state import seed_from

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
    trainer.log(dict(metrics))
    trainer.control = trainer.callback_handler.on_evaluate(trainer.args, trainer.state, trainer.control, metrics)
    return metrics


def _count_correct(trainer: JointConjecturerProverTrainer, problems: list[Problem]) -> tuple[list[int], int, int]:
    settings, domain = trainer.roles["prover"], trainer.domain
    rank, world = trainer.accelerator.process_index, trainer.accelerator.num_processes
    mine = problems[rank::world]
    with trainer.sampling_as("prover"):
        texts, truncated = sample_texts(
            trainer.policies.module,
            trainer.processing_class,
            [domain.prove_row(problem)["prompt"] for problem in mine],
            trainer.num_generations_eval,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            max_new_tokens=settings.max_completion_length,
            batch_size=trainer.args.per_device_eval_batch_size,
            seed=seed_from(trainer.args.seed, "eval", trainer.state.global_step, rank),
            stop_strings=domain.stop_strings("prover"),
        )
    verdicts = [[domain.verify(text, p) for text in answers] for p, answers in zip(mine, texts, strict=True)]
    gathered = trainer._gather(
        [
            (sum(v.correct for v in row), sum(v.n_answers > 1 for v in row), sum(cut))
            for row, cut in zip(verdicts, truncated, strict=True)
        ]
    )
    return [c for c, _, _ in gathered], sum(s for _, s, _ in gathered), sum(t for _, _, t in gathered)
