"""Evaluation of the players, before, while and after they are trained, and the probe of the answer format; the
trajectory is not touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..asking import sampling_of
from ..config.script import EvaluationArguments
from ..contract.domain import ended, in_moves
from ..distributed.ddp import Engine
from ..domains import held_out_of, name_of
from ..errors import ConfigError
from ..evaluation.roles import ProverEvaluation, evaluate_conjecturer, evaluate_prover, pooled
from ..evaluation.sampling import sample_texts
from ..evaluation.setting import preset
from ..evaluation.summary import pass_by_axes, pass_by_rung, powers_of_two
from ..evaluation.terminal import ProgressLine
from ..generation.base import Turns
from ..random_state import seed_from
from ..statistics.pass_at_k import pass_at_k
from .rollouts import sampling_as

SOLVE_RATE_PROBLEMS = 256  # unique playable proposals on which the conjecturer's mean solve rate is measured
SOLVE_RATE_ANSWERS = 8
PROBED_EACH = 4
"""First moves to each problem of the format's probe."""


@dataclass(eq=False)
class Evaluator:
    """Measures players with private randomness. All methods are called by all processes, which share the work out, for
    one that worked alone could outlast the others' time limit; all return the same."""

    turns: Turns
    engine: Engine
    domain: Any
    answers: int
    """To a problem (num_generations_eval)."""
    format_probed: bool = False
    """Whether the provers have shown that they can write a move."""

    def __post_init__(self) -> None:
        self.args, self.processes = self.turns.args, self.turns.processes

    def held_out_side(self) -> list[Any]:
        """The problems that the command line measures a run on when no data set is named. ConfigError for a domain
        without a held-out side, whose training would have had to be told which problems to leave out."""
        if self.domain.held_out is None:
            raise ConfigError(
                f"evaluate() needs problems: the domain '{name_of(self.domain)}' has no held-out side; pass "
                "`eval_dataset` to the trainer, which keeps its problems out of training."
            )
        return held_out_of(self.domain, EvaluationArguments().eval_problems)

    def pass_at(
        self, rows: Iterable[Mapping[str, Any]] | None, prefix: str, step: int | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """`<prefix>_pass@k` for k = 1, 2, 4, ... up to `answers`, by the verifier's bit alone; of problems of several
        rungs also by rung, for the least and the greatest k; and the provers' figures as evaluation.json holds them.
        `rows`: None for the held-out side. Sampling is the prover's own setting, or that of `eval_preset`; its seed
        depends on the optimizer `step` only. None, outside of training: seed and batches of `measure`, so that the
        draws before and after are the same, and those of the command."""
        if rows is None:
            problems = self.held_out_side()
        else:
            problems = [self.domain.problem(row, index) for index, row in enumerate(rows)]
        how: dict[str, Any] = {}
        if step is not None:
            how = {"batch_size": self.args.per_device_eval_batch_size, "seed": seed_from(self.args.seed, "eval", step)}
        found, figures = self.figures(problems, label="held-out", **how)
        ks = powers_of_two(min(self.answers, 128))
        scores = {k: sum(pass_at_k(found.n, c, k) for c in found.correct) / len(problems) for k in ks}
        metrics = {f"pass@{k}": score for k, score in scores.items()}
        if found.rungs is not None:
            metrics |= pass_by_rung(found.correct, found.rungs, found.n, sorted({ks[0], ks[-1]}))
        axes = [self.domain.axes(problem) for problem in problems]
        metrics |= pass_by_axes(axes, found.correct, found.n, sorted({ks[0], ks[-1]}))
        metrics |= {"several_answers_rate": found.several_answers_rate, "truncated_rate": found.truncated_rate}
        metrics["problems"] = float(len(problems))
        return {f"{prefix}_{name}": value for name, value in metrics.items()}, figures

    def figures(self, problems: list[Any], **how: Any) -> tuple[ProverEvaluation, dict[str, Any]]:
        """The pool of all provers, and {player: its figures} with it as "prover"."""
        ks = tuple(k for k in (1, 4, 8, 16, 32) if k <= self.answers)
        found = self.provers(problems, self.answers, ks, **how)
        pool = pooled([*found.values()], ks)
        return pool, {one: evaluation.to_dict() for one, evaluation in found.items()} | {"prover": pool.to_dict()}

    def measure(self, problems: list[Any], proposals: int, when: str) -> dict[str, Any]:
        """Evaluate every player, conjecturers by their number of `proposals`; {} without held-out problems. "prover"
        is the pool of all provers. `when`: words of the line that is printed."""
        result: dict[str, Any] = {}
        if problems:
            say, answers = self.engine.accelerator.print, self.answers
            say(f"Evaluating {when} on {len(problems)} held-out problems, {answers} answers each ...")
            _, result = self.figures(problems, label="")
            writers = self.args.players_of("conjecturer")
            result |= {one: self.proposals(proposals // len(writers), one) for one in writers}
        self.processes.wait()
        return result

    @contextmanager
    def acting_as(self, role: str, label: str | None, unit: str) -> Iterator[dict[str, Any]]:
        """Inside the block the module generates as `role`; yields the role's sampling and how processes share the
        work. `label`: of the bar, None for none."""
        settings, main = self.turns.roles[role], self.processes.main
        bar = ProgressLine(label or role, unit, enabled=label is not None and main and not self.args.disable_tqdm)
        with sampling_as(self.engine, role), self.engine.whole_weights(), bar:
            sampling = sampling_of(self.args, settings, self.turns.stops(role))
            if settings.kind == self.args.solver.kind:  # proposals are sampled as in training
                sampling = preset(self.args.eval_preset, sampling)
            yield {**sampling, "processes": self.processes, "progress": bar}

    def provers(
        self,
        problems: list[Any],
        n: int,
        ks: Sequence[int],
        label: str | None = None,
        batch_size: int | None = None,
        seed: int = 0,
    ) -> dict[str, ProverEvaluation]:
        """`n` answers of each prover, by its name, to each problem, sampled as `eval_preset` says; their seeds differ,
        or equal provers would give equal answers. `batch_size`: None for at least `n`."""
        module, tokenizer, found = self.engine.policies.module, self.turns.tokenizer, {}
        size = max(self.args.per_device_eval_batch_size, n) if batch_size is None else batch_size
        for i, one in enumerate(self.args.players_of("prover")):
            own = seed_from(seed, one) if i else seed
            with self.acting_as(one, None if label is None else f"{one} {label}".strip(), "answers") as how:
                found[one] = evaluate_prover(
                    module, tokenizer, problems, self.domain, n, ks, batch_size=size, seed=own, **how
                )
        return found

    def proposals(self, n: int, player: str = "conjecturer") -> dict[str, Any]:
        """Rates of `n` proposals, and the provers' mean solve rate on the unique playable ones among them."""
        module, tokenizer, size = (
            self.engine.policies.module,
            self.turns.tokenizer,
            self.args.per_device_eval_batch_size,
        )
        with self.acting_as(player, player, "proposals") as how:
            found = evaluate_conjecturer(module, tokenizer, self.domain, n=n, batch_size=size, **how)
        result = found.to_dict()
        playable = list({self.domain.key(p): p for p in found.problems}.values())[:SOLVE_RATE_PROBLEMS]
        if playable:
            found_P = self.provers(playable, SOLVE_RATE_ANSWERS, (1,), "on proposals")
            result["solve_rate"] = pooled([*found_P.values()], (1,)).pass_at[1].to_dict()
        return result

    def probe_format(self) -> None:
        """ConfigError if not one of a prover's first `format_probe` moves, on problems of the lowest rung, is legal: a
        warm start that has never seen the format earns nothing, and under expert iteration, whose right answers buy
        the steps, it would play all rounds without one. Sampled as in training, with private generators, so that a run
        is the same with it and without; once a run, not on a resume."""
        domain, asked = self.domain, self.args.format_probe
        told = domain.move_format and domain.was_legal and domain.rungs and domain.random_of_rung
        if self.format_probed or not asked or not in_moves(domain) or not told:
            return
        rung, each = min(domain.rungs), min(PROBED_EACH, asked)
        problems = domain.random_of_rung(-(-asked // each), rung, seed_from(self.args.seed, "probe"), frozenset())
        for player, settings in self.turns.roles.items():
            if settings.kind != self.args.solver.kind:
                continue
            texts = self._first_moves(player, problems, each)
            own = [problem for problem in problems for _ in range(each)]
            found = domain.moved(texts, own, [domain.begin(problem) for problem in own])
            verdicts = [result for result in found if ended(result)]
            if verdicts and len(verdicts) == len(found) and not any(map(domain.was_legal, verdicts)):
                raise ConfigError(_refusal(player, rung, texts, verdicts, domain.move_format))
        self.format_probed = True

    def _first_moves(self, player: str, problems: list[Any], each: int) -> list[str]:
        """`each` first moves to each problem, side by side; all of them on every process."""
        module, tokenizer, size = (
            self.engine.policies.module,
            self.turns.tokenizer,
            self.args.per_device_eval_batch_size,
        )
        how = sampling_of(self.args, self.turns.roles[player], self.turns.stops(player))
        how |= {"processes": self.processes, "seed": seed_from(self.args.seed, "probe", player), "batch_size": size}
        prompts = [self.domain.prove_row(problem)["prompt"] for problem in problems]
        with sampling_as(self.engine, player), self.engine.whole_weights():
            texts, _ = sample_texts(module, tokenizer, prompts, each, **how)
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
