"""Evaluation of each role: pass@k of a prover, or of a pool of provers, on given problems; the conjecturer's rates
over its proposals; the guide's over its reviews."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from ..asking import DEFAULTS
from ..contract.domain import Domain, OpenDomain, P
from ..distributed.processes import ALONE, Processes
from ..domains import asked_of, checked_alone
from ..errors import ConfigError, DataError
from ..statistics.bootstrap import Z_95, Estimate, share_interval, wilson_interval
from ..statistics.pass_at_k import pass_at_k_array
from .episodes import rungs_of, sample_answers
from .sampling import Sampling, dtype_of, sample_completions, with_stops
from .summary import by_rung, ladder


@dataclass(frozen=True)
class ProverEvaluation:
    """Evaluation of a prover.

    Attributes:
        correct: correct answers per problem, each out of n.
        keys: keys of the problems (`Domain.key`).
        pass_at: pass@k by k with a 95% interval over problems (`share_interval`).
        score: mean score by the rules. Other rates are shares of all answers (in moves: episodes).
        seconds: wall-clock time of the evaluation.
        rungs: rung of each problem, None unless there are several.
    """

    n: int
    pass_at: dict[int, Estimate]
    score: Estimate
    truncated_rate: float
    several_answers_rate: float
    reasons: Counter[str]
    seconds: float
    setting: dict[str, Any]
    correct: list[int]
    keys: list[str]
    rungs: list[int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, with string keys in `pass_at`; with several rungs also `by_rung` and `ladder`."""
        values = {"problems": len(self.correct), **vars(self), **_plain(self), "score": self.score.to_dict()}
        values |= {"pass_at": {str(k): estimate.to_dict() for k, estimate in self.pass_at.items()}}
        if self.rungs is None:
            del values["rungs"]
            return values
        ks, seed = [*self.pass_at], int(self.setting["seed"])
        values["by_rung"] = by_rung(self.correct, self.rungs, self.n, ks, seed=seed)
        score = ladder(values["by_rung"], ks, seed=seed)
        return values if score is None else {**values, "ladder": score}


@dataclass(frozen=True)
class ConjecturerEvaluation:
    """Evaluation of a conjecturer: shares of all `n` proposals with 95% intervals.

    Attributes:
        facts: share of proposals for each of the domain's facts (Countdown: in_range, and solvable, which implies
          in_range); for a domain without facts the share of "playable" ones.
        unique: distinct problems / parsed proposals, None if none is parsed. It falls as n grows: compare at equal n.
        solve_rate: mean over the distinct playable problems, None unless `prover_correct` was given.
        problems: playable proposals in order, repetitions included.
    """

    n: int
    parseable: Estimate
    facts: dict[str, Estimate]
    unique: Estimate | None
    solve_rate: Estimate | None
    truncated_rate: float
    reasons: Counter[str]
    seconds: float
    setting: dict[str, Any]
    problems: list[Any]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; absent estimates are left out."""
        estimates = {"parseable": self.parseable, **self.facts, "unique": self.unique, "solve_rate": self.solve_rate}
        known = {name: estimate.to_dict() for name, estimate in estimates.items() if estimate is not None}
        return {"n": self.n, **known, "truncated_rate": self.truncated_rate, **_plain(self)}


def _plain(one: ProverEvaluation | ConjecturerEvaluation) -> dict[str, Any]:
    seconds = round(one.seconds, 3)
    return {"reasons": dict(one.reasons.most_common()), "seconds": seconds, "setting": one.setting}


def evaluate_prover(
    model: Any,
    tokenizer: Any,
    problems: Sequence[P],
    domain: Domain[P],
    n: int = 16,
    ks: Sequence[int] = (1, 4, 8, 16),
    *,
    seed: int = 0,
    batch_size: int = 1024,
    resamples: int = 10_000,
    processes: Processes = ALONE,
    **sampling: Unpack[Sampling],
) -> ProverEvaluation:
    """Sample `n` answers (in moves: episodes) to each problem and judge them by the verifier's correctness. It neither
    reads nor advances the global random state. `processes` share the problems and return the same result. `sampling`:
    as in sample_completions; default `stop_strings` are the domain's. Raises ConfigError if a k exceeds n; DataError
    if there is no problem."""
    if not problems:
        raise DataError("evaluate_prover() needs at least one problem.")
    wrong = [k for k in ks if not 1 <= k <= n]
    if wrong:
        raise ConfigError(f"`ks` holds {wrong[0]}, which must lie between 1 and the answers per problem, n = {n}.")
    start = time.perf_counter()
    sampling = with_stops(sampling, domain, "prover")
    drawn: dict[str, Any] = {"batch_size": batch_size, "processes": processes, **sampling}
    answers = sample_answers(model, tokenizer, problems, domain, n, seed=seed, **drawn)
    verdicts = [[one.verdict for one in row] for row in answers]
    correct = [sum(v.correct for v in row) for row in verdicts]
    total = n * len(problems)
    return ProverEvaluation(
        correct=correct,
        n=n,
        pass_at={k: share_interval(pass_at_k_array(correct, n, k), resamples, seed) for k in ks},
        score=share_interval([sum(v.score for v in row) / n for row in verdicts], resamples, seed),
        reasons=Counter(str(v.reason) for row in verdicts for v in row),
        truncated_rate=sum(one.truncated for row in answers for one in row) / total,
        several_answers_rate=sum(getattr(v, "n_answers", 1) > 1 for row in verdicts for v in row) / total,
        seconds=time.perf_counter() - start,
        setting=_setting(model, sampling, seed, domain),
        keys=[domain.key(problem) for problem in problems],
        rungs=rungs_of(domain, problems),
    )


def evaluate_conjecturer(
    model: Any,
    tokenizer: Any,
    domain: OpenDomain[P],
    n: int = 512,
    *,
    seed: int = 0,
    batch_size: int = 1024,
    prover_correct: Callable[[list[P]], Sequence[float]] | None = None,
    processes: Processes = ALONE,
    **sampling: Unpack[Sampling],
) -> ConjecturerEvaluation:
    """Sample `n` proposals, the same number for each request of the domain, and check them.
    `prover_correct(problems)` returns a solve rate in [0, 1] per problem, for the distinct playable ones.
    `processes`, `sampling`: as in evaluate_prover."""
    start = time.perf_counter()
    sampling = with_stops(sampling, domain, "conjecturer")
    prompts = [domain.propose_row(**ask)["prompt"] for ask in asked_of(domain)]
    mine = sample_completions(
        model,
        tokenizer,
        prompts,
        -(-n // (len(prompts) * processes.world)),
        seed=processes.seed(seed),
        batch_size=batch_size,
        in_step=processes.in_step,
        **sampling,
    )
    rows = processes.gather(mine)  # processes x asks
    # Requests are distributed evenly: every process has sampled its part of each.
    by_ask = [[c for row in rows[i :: len(prompts)] for c in row] for i in range(len(prompts))]
    dealt = [completion for column in zip(*by_ask, strict=True) for completion in column][:n]
    proposals = domain.parse([c.text for c in dealt])
    parsed = [p.problem for p in proposals if p.problem is not None]
    keys = [domain.key(problem) for problem in parsed]
    # Checking may be expensive (Countdown's solver): each problem is checked once, whatever its request.
    distinct = dict(zip(keys, parsed, strict=True))
    checks = checked_alone(domain, list(distinct.values()))
    checked = dict(zip(distinct, checks, strict=True))
    playable = [problem for key, problem in zip(keys, parsed, strict=True) if checked[key].reason == "ok"]
    if domain.drawn is not None:  # each proposal is measured by a problem of its levels
        playable = [problem for problem in domain.drawn(playable, seed) if problem is not None]
    facts = {fact: sum(checked[key].facts.get(fact, False) for key in keys) for fact in domain.facts}
    reasons = Counter(str(p.reason) for p in proposals if p.problem is None)
    reasons.update(checked[key].reason for key in keys)
    solve_rate = None
    if prover_correct is not None and playable:
        rates = prover_correct(list({domain.key(problem): problem for problem in playable}.values()))
        solve_rate = share_interval(rates, seed=seed)
    return ConjecturerEvaluation(
        n=n,
        parseable=wilson_interval(len(parsed), n),
        facts={fact: wilson_interval(k, n) for fact, k in (facts or {"playable": len(playable)}).items()},
        unique=unique_rate(keys),
        solve_rate=solve_rate,
        reasons=reasons,
        truncated_rate=sum(c.truncated for c in dealt) / n,
        problems=playable,
        seconds=time.perf_counter() - start,
        setting=_setting(model, sampling, seed, domain),
    )


def unique_rate(keys: Sequence[str]) -> Estimate | None:
    """Return distinct keys / keys with a 95% interval, value +- 1.96 standard errors clipped to [0, 1]; None without
    keys. A bootstrap is invalid, because resampling makes duplicates. The variance is the delete-one jackknife's,
    whose expectation is not too small (Efron and Stein 1981): leaving key i out lowers the distinct count by 1 if i is
    a singleton, else by 0, so that with s the share of singletons among N keys it is s (1 - s) / (N - 1). Two
    singletons and two others are added to s, so that the width is never 0."""
    if not keys:
        return None
    counts = Counter(keys)
    value, total = len(counts) / len(keys), len(keys)
    s = (sum(count == 1 for count in counts.values()) + 2) / (total + 4)
    half = Z_95 * (s * (1 - s) / (total - 1)) ** 0.5 if total > 1 else 1.0
    return Estimate(value, max(value - half, 0.0), min(value + half, 1.0))


def _setting(model: Any, sampling: Mapping[str, Any], seed: int, domain: Any) -> dict[str, Any]:
    given = {name: sampling.get(name, default) for name, default in DEFAULTS.items()}
    return {**given, "dtype": dtype_of(model), "seed": seed, "domain": domain.to_dict()}


def pooled(parts: Sequence[ProverEvaluation], ks: Sequence[int] = ()) -> ProverEvaluation:
    """Combine the answers of all provers to each problem: n is the total, and pass@k is that of k answers drawn from
    all of them, comparable with one prover at equal samples. Settings in which the provers differ become lists; the
    seed is the first prover's. The interval of `score` averages the provers' limits, which is conservative."""
    if len(parts) == 1:
        return parts[0]
    correct = [sum(counts) for counts in zip(*(one.correct for one in parts), strict=True)]
    n, count = sum(one.n for one in parts), len(parts)
    scores = [one.score for one in parts]
    return replace(
        parts[0],
        correct=correct,
        n=n,
        pass_at={k: share_interval(pass_at_k_array(correct, n, k)) for k in ks},
        score=Estimate(*(sum(getattr(s, end) for s in scores) / count for end in ("value", "low", "high"))),
        reasons=sum((one.reasons for one in parts), Counter()),
        truncated_rate=sum(one.truncated_rate for one in parts) / count,
        several_answers_rate=sum(one.several_answers_rate for one in parts) / count,
        seconds=sum(one.seconds for one in parts),
        setting={name: _of_all(name, [one.setting.get(name) for one in parts]) for name in parts[0].setting},
    )


def _of_all(name: str, values: list[Any]) -> Any:
    return values[0] if name == "seed" or all(value == values[0] for value in values) else values
