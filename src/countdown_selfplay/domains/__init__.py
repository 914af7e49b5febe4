"""Domains by name: what is played. A domain of a user's own is named by where it is: my_package.my_module:MyDomain."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..contract.domain import BaseDomain, in_moves
from ..contract.stateful import check_part
from ..errors import ConfigError, CountdownSelfPlayError, DataError
from ..options import json_object
from ..packages import parts_beside
from ..registry import Registry

DOMAINS: Registry[Any] = Registry(
    "domain",
    {
        "countdown": "countdown_selfplay.countdown.domain:CountdownDomain",
        **parts_beside("domain"),
    },
)

HELD_OUT_SEED = 1 << 30
"""Seed of the held-out problems of a domain that has no held-out side of its own; training draws with its own."""


def make_domain(name: str, arguments: dict[str, Any] | str | None = None) -> Any:
    """The domain called `name`, built with `arguments` (a dict, or JSON); ConfigError for unknown ones."""
    made = DOMAINS.make(name, json_object("domain_kwargs", arguments, '{"high": 20}'))
    check_domain(f"The domain '{name}'", made)
    return made


def check_domain(what: str, domain: Any) -> None:
    """ConfigError for an object that is no domain."""
    check_part(what, domain, BaseDomain, ("problem", "key", "prove_row", "verify", "stop_strings", "to_dict"))


def domain_from(config: Any) -> Any:
    """The domain that a configuration names by its fields `domain` and `domain_kwargs`; one with `from_config` is
    built from `config.countdown`, the settings of Countdown."""
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
    """What a domain calls itself where results are recorded."""
    return str(domain.to_dict().get("domain", type(domain).__name__))


def verdicts_of(domain: Any, groups: Sequence[Sequence[str]], problems: Sequence[Any]) -> list[list[Any]]:
    """The verdicts on a group of answers to each problem, asked for in one call: a domain may have several workers."""
    texts = [text for group in groups for text in group]
    asked = [problem for group, problem in zip(groups, problems, strict=True) for _ in group]
    found = iter(domain.verify(texts, asked))
    return [[next(found) for _ in group] for group in groups]


def held_out_of(domain: Any, n: int) -> list[Any]:
    """`n` problems that a run is measured on when no data set is named: of the domain's held-out side if it has one,
    else random ones, which training then leaves out by their keys."""
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
    """Whether a problem may not be trained on: it is on the held-out side, or one of the `evaluated` keys."""
    return domain.is_held_out(problem) or domain.key(problem) in evaluated


def longest_problem(domain: Any, rows: Iterable[Mapping[str, Any]] = ()) -> Any:
    """A problem whose prompt is among the longest: the domain's own word, else of 64 random ones; of a domain that
    makes none the first of `rows`."""
    if domain.longest is not None:
        return domain.longest
    if domain.random is None:
        for row in rows:
            return domain.problem(row)
        raise DataError(f"The domain '{name_of(domain)}' does not generate problems; pass a data set of them.")
    return max(domain.random(64, 0, frozenset()), key=lambda problem: len(str(domain.prove_row(problem)["prompt"])))


def checked_alone(domain: Any, problems: Sequence[Any]) -> list[Any]:
    """The results of `check` for problems without a request."""
    try:
        return list(domain.check(list(problems), [None] * len(problems)))
    except CountdownSelfPlayError:
        raise
    except Exception as error:  # whatever code of a user's own raises
        raise ConfigError(
            f"`check` of the domain '{name_of(domain)}' ended in {type(error).__name__} ({error}) for problems "
            "without a request: where an entry of `asked` is None, judge the problem alone."
        ) from error


def asked_of(domain: Any) -> list[dict[str, Any]]:
    """Each thing that proposers are asked for, once."""
    asks = [dict(ask) for ask in domain.asks]
    return [ask for i, ask in enumerate(asks) if ask not in asks[:i]]


def example_rows(domain: Any, proposals: bool, rows: Iterable[Mapping[str, Any]] = ()) -> dict[str, dict[str, Any]]:
    """A row that asks the prover, and with `proposals` one that asks the conjecturer."""
    if proposals and not asked_of(domain):
        raise ConfigError(
            f"The domain '{name_of(domain)}' asks for no proposals (`asks`, `propose_row`), and the run has a "
            "conjecturer; set conjecturer_players to 0, or play another domain."
        )
    found = {"prover": domain.prove_row(longest_problem(domain, rows))}
    return found | ({"conjecturer": domain.propose_row(**asked_of(domain)[0])} if proposals else {})


def example_prompts(domain: Any, rows: Mapping[str, Mapping[str, Any]], dialogues: bool) -> list[Any]:
    """The prompts of `example_rows`; with `dialogues` also one that goes on from an answer, as critics and their
    provers are asked, of a domain that has such."""
    found = [row["prompt"] for row in rows.values()]
    if dialogues and domain.critique is not None:
        found.append(domain.critique.revise_row(domain.problem(rows["prover"], 0), "1", "1")["prompt"])
    return found


def held_out_by_rung(domain: Any, rungs: Sequence[int] | None, each: int, asked_by: str = "`--rungs`") -> list[Any]:
    """`each` held-out problems of each of `rungs` (None: all that the domain has), rung by rung. ConfigError, which
    names the setting that asked, for a rung that it does not have."""
    if domain.held_out_of_rung is None:
        raise ConfigError(
            f"The domain '{type(domain).__name__}' has no problems by rung (`held_out_of_rung`); leave {asked_by} out."
        )
    known = list(domain.rungs)
    asked = known if rungs is None else list(dict.fromkeys(rungs))
    for rung in asked:
        if rung not in known:
            raise ConfigError(
                f"{asked_by} has {rung}, and the rungs of this domain are {', '.join(map(str, known))}; leave it out, "
                "or widen the problems (Countdown: --operands)."
            )
    return [problem for rung in asked for problem in domain.held_out_of_rung(each, rung)]
