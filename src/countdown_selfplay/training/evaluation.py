"""Evaluation of the players before, during and after training, and the test of the answer format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..asking import sampling_of
from ..config.script import EvaluationArguments
from ..contract.domain import ended, in_moves
from ..distributed.ddp import Engine
from ..domains import held_out_of, name_of
from ..errors import ConfigError, shortened
from ..evaluation.roles import ProverEvaluation, evaluate_conjecturer, evaluate_prover, pooled
from ..evaluation.sampling import sample_texts
from ..evaluation.setting import preset
from ..evaluation.summary import pass_by_axes, pass_by_rung, powers_of_two
from ..evaluation.terminal import ProgressLine
from ..generation.base import Sampler
from ..random_state import seed_from
from ..statistics.pass_at_k import pass_at_k
from .rollouts import sampling_as

SOLVE_RATE_PROBLEMS = 256  # unique playable proposals that measure the conjecturer's mean solve rate
SOLVE_RATE_ANSWERS = 8
PROBED_EACH = 4
"""Largest number of first moves that are sampled per problem in the test of the answer format."""


class Evaluator:
    """Evaluator of the players, with random generators that training does not use. All processes must call each
    method, which splits the work among them and returns the same result on each."""

    def __init__(self, sampler: Sampler, engine: Engine, domain: Any, answers: int) -> None:
        """Create an evaluator. `answers`: number of answers per problem (num_generations_eval)."""
        self.sampler, self.engine, self.domain, self.answers = sampler, engine, domain, answers
        self.context = sampler.context
        self.args, self.processes = self.context.args, self.context.processes
        self.format_probed = False
        """Whether the provers have passed the test of the format."""

    def held_out_side(self) -> list[Any]:
        """Return the domain's held-out problems, for a run without an evaluation data set. Raises ConfigError for a
        domain without a held-out side, because training may have used any problem."""
        if self.domain.held_out is None:
            lacks = f"the domain '{name_of(self.domain)}' has no held-out side"
            raise ConfigError(f"evaluate() needs problems: {lacks}; pass `eval_dataset` to the trainer.")
        return held_out_of(self.domain, EvaluationArguments().eval_problems)

    def pass_at(
        self, rows: Iterable[Mapping[str, Any]] | None, prefix: str, step: int | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Return metrics named `<prefix>_...`, and player -> figures as in evaluation.json. The metrics are pass@k by
        the verifier alone for k = 1, 2, 4, ... up to `answers` (at most 128), for the lowest and the highest k also by
        rung and axis, and rates such as `truncated_rate`. `rows`: problems; None: `held_out_side`. `step`: step of the
        Trainer, part of the seed; None: the seed and batch size of `measure`, so that evaluations before and after
        training draw equal random numbers."""
        if rows is None:
            problems = self.held_out_side()
        else:
            problems = [self.domain.problem(row, index) for index, row in enumerate(rows)]
        how: dict[str, Any] = {}
        if step is not None:
            how = {"batch_size": self.args.per_device_eval_batch_size, "seed": seed_from(self.args.seed, "eval", step)}
        pool, figures = self.figures(problems, label="held-out", **how)
        ks = powers_of_two(min(self.answers, 128))
        ends = sorted({ks[0], ks[-1]})
        metrics = {f"pass@{k}": sum(pass_at_k(pool.n, c, k) for c in pool.correct) / len(problems) for k in ks}
        if pool.rungs is not None:
            metrics |= pass_by_rung(pool.correct, pool.rungs, pool.n, ends)
        metrics |= pass_by_axes([self.domain.axes(problem) for problem in problems], pool.correct, pool.n, ends)
        metrics |= {"several_answers_rate": pool.several_answers_rate, "truncated_rate": pool.truncated_rate}
        metrics["problems"] = float(len(problems))
        return {f"{prefix}_{name}": value for name, value in metrics.items()}, figures

    def figures(self, problems: list[Any], **how: Any) -> tuple[ProverEvaluation, dict[str, Any]]:
        """Evaluate all provers; return the pooled evaluation, and a map of players to metrics ("prover": the pool)."""
        ks = tuple(k for k in (1, 4, 8, 16, 32) if k <= self.answers)
        by_role = self.provers(problems, self.answers, ks, **how)
        pool = pooled([*by_role.values()], ks)
        return pool, {one: evaluation.to_dict() for one, evaluation in by_role.items()} | {"prover": pool.to_dict()}

    def measure(self, problems: list[Any], proposals: int, when: str) -> dict[str, Any]:
        """Evaluate the provers on held-out `problems`, and the conjecturers on `proposals` samples in total; return
        player -> figures ("prover": the pool of all provers), or {} without problems. `when`: text to print."""
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
    def acting_as(self, role: str, label: str | None, unit: str) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Let `role` sample inside the block; yield the model to sample from (the trained one, or a stand-in that
        calls the engine) and sampling arguments. `label`: text of the progress bar ("": `role`; None: no bar)."""
        settings, main = self.context.roles[role], self.processes.main
        bar = ProgressLine(label or role, unit, enabled=label is not None and main and not self.args.disable_tqdm)
        with sampling_as(self.engine, role), self.engine.whole_weights(), bar:
            sampling = sampling_of(self.args, settings, self.context.stops(role))
            if settings.kind == self.args.solver.kind:  # proposals are sampled as in training
                sampling = preset(self.args.eval_preset, sampling)
            asked = self.engine.policies.module
            if self.processes.world == 1 or not in_moves(self.domain):  # else each plays as many moves as it needs
                asked = self.sampler.as_model(role, sampling)
            yield asked, {**sampling, "processes": self.processes, "progress": bar}

    def provers(
        self,
        problems: list[Any],
        n: int,
        ks: Sequence[int],
        label: str | None = None,
        batch_size: int | None = None,
        seed: int = 0,
    ) -> dict[str, ProverEvaluation]:
        """Sample `n` answers of each prover to each problem, under `eval_preset`; return player -> evaluation. Seeds
        differ by prover, because equal provers would give equal answers. `batch_size`: rows per call of `generate`."""
        tokenizer, evaluations = self.context.tokenizer, {}
        size = max(self.args.per_device_eval_batch_size, n) if batch_size is None else batch_size
        for i, one in enumerate(self.args.players_of("prover")):
            player_seed = seed_from(seed, one) if i else seed
            with self.acting_as(one, None if label is None else f"{one} {label}".strip(), "answers") as (model, how):
                evaluations[one] = evaluate_prover(
                    model, tokenizer, problems, self.domain, n, ks, batch_size=size, seed=player_seed, **how
                )
        return evaluations

    def proposals(self, n: int, player: str = "conjecturer") -> dict[str, Any]:
        """Sample `n` proposals; return their rates, and the provers' mean solve rate on the unique playable ones."""
        tokenizer, size = self.context.tokenizer, self.args.per_device_eval_batch_size
        with self.acting_as(player, player, "proposals") as (model, how):
            evaluation = evaluate_conjecturer(model, tokenizer, self.domain, n=n, batch_size=size, **how)
        result = evaluation.to_dict()
        playable = list({self.domain.key(p): p for p in evaluation.problems}.values())[:SOLVE_RATE_PROBLEMS]
        if playable:
            found_P = self.provers(playable, SOLVE_RATE_ANSWERS, (1,), "on proposals")
            result["solve_rate"] = pooled([*found_P.values()], (1,)).pass_at[1].to_dict()
        return result

    def probe_format(self) -> None:
        """Raise ConfigError if all of `format_probe` first moves that a prover samples on problems of the lowest rung
        are illegal: a model that has never seen the format gets no reward, and expert iteration would play all rounds
        without a step. Sampling uses training's settings and private generators."""
        domain, moves = self.domain, self.args.format_probe
        judged = domain.move_format and domain.was_legal and domain.rungs and domain.random_of_rung
        if self.format_probed or not moves or not in_moves(domain) or not judged:
            return
        rung, each, seed = min(domain.rungs), min(PROBED_EACH, moves), seed_from(self.args.seed, "probe")
        problems = domain.random_of_rung(-(-moves // each), rung, seed, frozenset())
        for player, settings in self.context.roles.items():
            if settings.kind != self.args.solver.kind:
                continue
            texts = self._first_moves(player, problems, each)
            repeated = [problem for problem in problems for _ in range(each)]
            outcomes = domain.moved(texts, repeated, [domain.begin(problem) for problem in repeated])
            verdicts = [result for result in outcomes if ended(result)]
            if verdicts and len(verdicts) == len(outcomes) and not any(map(domain.was_legal, verdicts)):
                prompt = domain.prove_row(problems[0])["prompt"]
                joined = isinstance(prompt, str) and _joined(self.context.tokenizer, prompt)
                raise ConfigError(_refusal(player, rung, texts, verdicts, domain.move_format, joined))
        self.format_probed = True

    def _first_moves(self, player: str, problems: list[Any], each: int) -> list[str]:
        module, tokenizer = self.engine.policies.module, self.context.tokenizer
        size = self.args.per_device_eval_batch_size
        how = sampling_of(self.args, self.context.roles[player], self.context.stops(player))
        how |= {"processes": self.processes, "seed": seed_from(self.args.seed, "probe", player), "batch_size": size}
        prompts = [self.domain.prove_row(problem)["prompt"] for problem in problems]
        with sampling_as(self.engine, player), self.engine.whole_weights():
            texts, _ = sample_texts(module, tokenizer, prompts, each, **how)
        return [text for group in texts for text in group]


def _joined(tokenizer: Any, prompt: str) -> bool:
    ids = tokenizer(prompt)["input_ids"]
    return bool(tokenizer(f"{prompt} 6")["input_ids"][: len(ids)] != ids)


def _refusal(player: str, rung: int, texts: list[str], verdicts: list[Any], expected: str, joined: bool) -> str:
    merged = "Its tokenizer makes one token of the prompt's end and a number after it; take a chat prompt. " * joined
    return (
        f"The {player} has not learned to answer in moves: of its first {len(texts)} moves, on problems of rung "
        f"{rung}, none is legal. It wrote {shortened(texts[0].strip(), 80)!r} ({verdicts[0].reason}); expected is "
        f"{expected}. {merged}Warm-start it with `countdown-selfplay sft --answers moves` and the prompt of this run, "
        "or set format_probe to 0 to train all the same."
    )
