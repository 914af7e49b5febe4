"""What the trained roles can do, before, while and after they are trained; the trajectory is not touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..config.script import EvaluationArguments
from ..domains import held_out_of, name_of
from ..errors import ConfigError
from ..evaluation.pooled import pooled
from ..evaluation.presets import preset
from ..evaluation.progress import ProgressLine
from ..evaluation.roles import ProverEvaluation, evaluate_conjecturer, evaluate_prover
from ..evaluation.rungs import pass_by_rung
from ..evaluation.sampling import evaluating
from ..random_state import seed_from
from ..statistics.bootstrap import paired_bootstrap
from ..statistics.pass_at_k import pass_at_k
from .host import Host

SOLVE_RATE_PROBLEMS = 256  # unique playable proposals on which the conjecturer's mean solve rate is measured
SOLVE_RATE_ANSWERS = 8


def evaluate_in_training(trainer: Host, dataset: Iterable[Mapping[str, Any]] | None, prefix: str) -> dict[str, float]:
    """`<prefix>_pass@k` for k = 1, 2, 4, ... up to `num_generations_eval` answers per problem, by the verifier's bit
    alone; of problems of several rungs also by rung, for the least and the greatest k.

    The processes share the problems out. Sampling is the prover's own setting, or that of `eval_preset`; its seed
    depends on the step only.
    """
    rows: Any = trainer.eval_dataset if dataset is None else dataset
    if rows is None:
        problems = held_out_side(trainer)
    else:
        problems = [trainer.domain.problem(row, index) for index, row in enumerate(rows)]
    n = trainer.num_generations_eval
    size, seed = (
        trainer.args.per_device_eval_batch_size,
        seed_from(trainer.args.seed, "eval", trainer.state.global_step),
    )
    found = pooled([*evaluate_provers(trainer, problems, n, label="held-out", batch_size=size, seed=seed).values()])
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= n]
    metrics = {f"{prefix}_pass@{k}": sum(pass_at_k(found.n, c, k) for c in found.correct) / len(problems) for k in ks}
    if found.rungs is not None:
        for name, value in pass_by_rung(found.correct, found.rungs, found.n, sorted({ks[0], ks[-1]})).items():
            metrics[f"{prefix}_{name}"] = value
    metrics[f"{prefix}_several_answers_rate"] = found.several_answers_rate
    metrics[f"{prefix}_truncated_rate"] = found.truncated_rate
    metrics[f"{prefix}_problems"] = float(len(problems))
    # In training mode TRL would put what the rounds have collected for the next training log (time/*) into this one.
    with evaluating(trainer.model):
        trainer.log(dict(metrics))
    trainer.control = trainer.callback_handler.on_evaluate(trainer.args, trainer.state, trainer.control, metrics)
    return metrics


def held_out_side(trainer: Host) -> list[Any]:
    """The problems that the command line measures a run on when no data set is named. ConfigError for a domain without
    a held-out side, whose training would have had to be told which problems to leave out."""
    if not hasattr(trainer.domain, "held_out"):
        raise ConfigError(
            f"evaluate() needs problems: the domain '{name_of(trainer.domain)}' has no held-out side; pass "
            "`eval_dataset` to the trainer, which keeps its problems out of training."
        )
    return held_out_of(trainer.domain, EvaluationArguments().eval_problems)


def write_report_of(trainer: Host, output: str | Path | None = None) -> Path:
    """report.html of the run so far, written by the main process; its path."""
    from ..evaluation.report import write_report  # matplotlib

    folder = Path(trainer.args.output_dir)
    path = folder / "report.html" if output is None else Path(output)
    if trainer.processes.main:
        write_report([folder], path)
    return path


def measure(trainer: Host, problems: list[Any], proposals: int, when: str) -> dict[str, Any]:
    """Evaluate every player with private randomness, conjecturers by their number of `proposals`; {} without held-out
    problems. "prover" is the pool of all provers. `when`: words of the line that is printed. The processes share the
    work out, for one that worked alone could outlast the others' time limit, and all return the same."""
    result: dict[str, Any] = {}
    if problems:
        answers = trainer.num_generations_eval
        trainer.accelerator.print(
            f"Evaluating {when} on {len(problems)} held-out problems, {answers} answers each ..."
        )
        ks = tuple(k for k in (1, 4, 8, 16, 32) if k <= answers)
        found = evaluate_provers(trainer, problems, answers, ks, label="")
        result = {one: evaluation.to_dict() for one, evaluation in found.items()}
        result["prover"] = pooled([*found.values()], ks).to_dict()
        writers = trainer.args.players_of("conjecturer")
        result |= {one: evaluate_proposals(trainer, proposals // len(writers), one) for one in writers}
    trainer.processes.wait()
    return result


@contextmanager
def evaluating_as(trainer: Host, role: str, label: str | None, unit: str) -> Iterator[dict[str, Any]]:
    """Inside the block the module generates as `role`; yields the role's sampling and how processes share the work.
    `label`: of the bar, None for none."""
    settings, main = trainer.roles[role], trainer.processes.main
    bar = ProgressLine(label or role, unit, enabled=label is not None and main and not trainer.args.disable_tqdm)
    with trainer.sampling_as(role), trainer.engine.whole_weights(trainer.model_wrapped), bar:
        own = {name: getattr(settings, name) for name in ("temperature", "top_p", "top_k")}
        own["max_new_tokens"] = settings.max_completion_length
        answers = settings.kind == trainer.args.solver.kind  # proposals are sampled as in training
        yield {
            **(preset(trainer.args.eval_preset, own) if answers else own),
            "processes": trainer.processes,
            "progress": bar,
        }


def evaluate_role(
    trainer: Host,
    role: str,
    problems: list[Any],
    n: int,
    ks: Sequence[int] = (),
    *,
    label: str | None = None,
    batch_size: int | None = None,
    seed: int = 0,
) -> ProverEvaluation:
    """`n` answers of `role`, sampled as `eval_preset` says, to each problem. `batch_size`: None for at least `n`."""
    size = max(trainer.args.per_device_eval_batch_size, n) if batch_size is None else batch_size
    with evaluating_as(trainer, role, label, "answers") as sampling:
        return evaluate_prover(
            trainer.policies.module,
            trainer.processing_class,
            problems,
            trainer.domain,
            n,
            ks,
            stop_strings=trainer.stops(role) or [],
            batch_size=size,
            seed=seed,
            **sampling,
        )


def evaluate_provers(
    trainer: Host,
    problems: list[Any],
    n: int,
    ks: Sequence[int] = (),
    *,
    label: str | None = None,
    batch_size: int | None = None,
    seed: int = 0,
) -> dict[str, ProverEvaluation]:
    """`n` answers of each prover by its name, as evaluate_role; each has a seed of its own, or equal provers would
    give equal answers."""
    found = {}
    for i, one in enumerate(trainer.args.players_of("prover")):
        own = seed_from(seed, one) if i else seed
        words = None if label is None else f"{one} {label}".strip()
        found[one] = evaluate_role(trainer, one, problems, n, ks, label=words, batch_size=batch_size, seed=own)
    return found


def evaluate_proposals(trainer: Host, n: int, player: str = "conjecturer") -> dict[str, Any]:
    """Rates of `n` proposals, and the provers' mean solve rate on the unique playable ones among them."""
    with evaluating_as(trainer, player, player, "proposals") as sampling:
        found = evaluate_conjecturer(
            trainer.policies.module,
            trainer.processing_class,
            trainer.domain,
            n=n,
            stop_strings=trainer.stops(player) or [],
            batch_size=trainer.args.per_device_eval_batch_size,
            **sampling,
        )
    result = found.to_dict()
    playable = list({trainer.domain.key(p): p for p in found.problems}.values())[:SOLVE_RATE_PROBLEMS]
    if playable:
        found_P = evaluate_provers(trainer, playable, SOLVE_RATE_ANSWERS, (1,), label="on proposals")
        result["solve_rate"] = pooled([*found_P.values()], (1,)).pass_at[1].to_dict()
    return result


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, list[float]]:
    """after - before of the prover's pass@k, paired over problems, with 95% percentile intervals."""
    a, b = before["prover"], after["prover"]
    found = {}
    for k in a["pass_at"]:
        interval = paired_bootstrap(a["correct"], b["correct"], a["n"], k=int(k))
        found[f"pass@{k}"] = [interval.difference, interval.low, interval.high]
    return found
