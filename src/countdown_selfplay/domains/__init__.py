"""Domains by name. A user's domain is named by its import path: my_package.my_module:MyDomain."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..contract.domain import BaseDomain, in_moves
from ..contract.stateful import check_part
from ..errors import ConfigError, CountdownSelfPlayError, DataError
from ..options import json_object
from ..packages import parts_beside
from ..registry import Registry

_COUNTDOWN = {"countdown": "countdown_selfplay.countdown.domain:CountdownDomain"}
DOMAINS: Registry[Any] = Registry("domain", _COUNTDOWN | parts_beside("domain"))

HELD_OUT_SEED = 1 << 30
"""Seed of the held-out problems of a domain without a held-out split; training uses another seed."""


def make_domain(name: str, arguments: dict[str, Any] | str | None = None) -> Any:
    """Build the domain called `name` with `arguments` (a dict, or JSON). Raises ConfigError for unknown arguments."""
    made = DOMAINS.make(name, json_object("domain_kwargs", arguments, '{"high": 20}'))
    check_domain(f"The domain '{name}'", made)
    return made


def check_domain(what: str, domain: Any) -> None:
    """Raise ConfigError for an object that is not a domain."""
    check_part(what, domain, BaseDomain, ("problem", "key", "prove_row", "verify", "stop_strings", "to_dict"))


def domain_from(config: Any) -> Any:
    """Build the domain of a configuration's fields `domain` and `domain_kwargs`; a class with `from_config` is built
    from `config.countdown`, the settings of Countdown, and `config.answers`."""
    build = getattr(DOMAINS.load(config.domain), "from_config", None)
    if build is None:
        domain = make_domain(config.domain, config.domain_kwargs)
    else:
        domain = build(config.countdown, config.answers)
    if config.answers == "moves" and not in_moves(domain):
        raise ConfigError(
            f"`answers` (moves) needs a domain that is played in moves, and '{config.domain}' has no `moved` "
            "(contract/domain.py); set answers to whole, or play countdown."
        )
    return domain


def name_of(domain: Any) -> str:
    """Return the domain's name in recorded results."""
    return str(domain.to_dict().get("domain", type(domain).__name__))


def verdicts_of(domain: Any, groups: Sequence[Sequence[str]], problems: Sequence[Any]) -> list[list[Any]]:
    """Return the verdicts on a group of answers to each problem, from one call: a domain may have several workers."""
    texts = [text for group in groups for text in group]
    repeated = [problem for group, problem in zip(groups, problems, strict=True) for _ in group]
    verdicts = iter(domain.verify(texts, repeated))
    return [[next(verdicts) for _ in group] for group in groups]


def held_out_of(domain: Any, n: int) -> list[Any]:
    """Return `n` problems that evaluate a run without a data set: of the domain's held-out split if it has one, else
    random ones, whose keys training excludes."""
    if not n:
        return []
    if domain.held_out is not None:
        return list(domain.held_out(n))
    if domain.random is None:
        raise ConfigError(
            f"The domain '{name_of(domain)}' does not generate problems; pass held-out ones as eval_dataset_name "
            "(eval: --problems), or set eval_problems to 0."
        )
    return list(domain.random(n, HELD_OUT_SEED, frozenset()))


def is_held_out(domain: Any, problem: Any, evaluated: Iterable[str] = ()) -> bool:
    """Return whether training must exclude a problem: it is in the held-out split, or its key is in `evaluated`."""
    return domain.is_held_out(problem) or domain.key(problem) in evaluated


def longest_problem(domain: Any, rows: Iterable[Mapping[str, Any]] = ()) -> Any:
    """Return a problem with one of the longest prompts: the domain's `longest`, else the longest of 64 random ones;
    for a domain without `random` the first of `rows`."""
    if domain.longest is not None:
        return domain.longest
    if domain.random is None:
        for row in rows:
            return domain.problem(row)
        raise DataError(f"The domain '{name_of(domain)}' does not generate problems; pass a data set of them.")
    return max(domain.random(64, 0, frozenset()), key=lambda problem: len(str(domain.prove_row(problem)["prompt"])))


def checked_alone(domain: Any, problems: Sequence[Any]) -> list[Any]:
    """Return the results of `check` for problems without a request. Raises ConfigError if `check` fails."""
    try:
        return list(domain.check(list(problems), [None] * len(problems)))
    except CountdownSelfPlayError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise ConfigError(
            f"`check` of the domain '{name_of(domain)}' ended in {type(error).__name__} ({error}) for problems "
            "without a request: where an entry of `asked` is None, judge the problem alone."
        ) from error


def asked_of(domain: Any) -> list[dict[str, Any]]:
    """Return the distinct requests for proposals of the domain (`asks`)."""
    asks = [dict(ask) for ask in domain.asks]
    return [ask for i, ask in enumerate(asks) if ask not in asks[:i]]


def example_rows(domain: Any, proposals: bool, rows: Iterable[Mapping[str, Any]] = ()) -> dict[str, dict[str, Any]]:
    """Return, by role, an example row of the prover, and with `proposals` one of the conjecturer."""
    if proposals and not asked_of(domain):
        raise ConfigError(
            f"The domain '{name_of(domain)}' asks for no proposals (`asks`, `propose_row`), and the run has a "
            "conjecturer; set conjecturer_players to 0, or play another domain."
        )
    examples = {"prover": domain.prove_row(longest_problem(domain, rows))}
    return examples | ({"conjecturer": domain.propose_row(**asked_of(domain)[0])} if proposals else {})


def example_prompts(domain: Any, rows: Mapping[str, Mapping[str, Any]], dialogues: bool) -> list[Any]:
    """Return the prompts of `example_rows`; with `dialogues` also one of several turns, which shows the prover its
    answer and a critique, if the domain has critiques."""
    prompts = [row["prompt"] for row in rows.values()]
    if dialogues and domain.critique is not None:
        prompts.append(domain.critique.revise_row(domain.problem(rows["prover"], 0), "1", "1")["prompt"])
    return prompts


def held_out_by_rung(domain: Any, rungs: Sequence[int] | None, each: int, asked_by: str = "`--rungs`") -> list[Any]:
    """Return `each` held-out problems of each of `rungs` (None: all), rung by rung. Raises ConfigError, which names
    the setting `asked_by`, for a rung that the domain does not have."""
    if domain.held_out_of_rung is None:
        raise ConfigError(
            f"The domain '{type(domain).__name__}' has no problems by rung (`held_out_of_rung`); leave {asked_by} out."
        )
    known = list(domain.rungs)
    requested = known if rungs is None else list(dict.fromkeys(rungs))
    for rung in requested:
        if rung not in known:
            raise ConfigError(
                f"{asked_by} has {rung}, and the rungs of this domain are {', '.join(map(str, known))}; leave it out, "
                "or widen the problems (Countdown: --operands)."
            )
    return [problem for rung in requested for problem in domain.held_out_of_rung(each, rung)]
