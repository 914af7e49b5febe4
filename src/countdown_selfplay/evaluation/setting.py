"""Settings of an evaluation (those of the model's run, the embedded model, a paper, or the public checkpoints) and its
problems (of a file, a hub data set, the frozen set, or the generator)."""

import argparse
import dataclasses
import hashlib
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..asking import DEFAULTS, check_generation_kwargs, shared_of
from ..contract.domain import Domain, in_moves
from ..countdown import CountdownDomain, ProblemSpec, Rules, heldout_problems
from ..countdown.prompts import BARE_PROMPTS, MOVES_PROMPTS
from ..data.jsonl import json_file, json_shape
from ..data.run_files import ROLES_FILE
from ..domains import held_out_by_rung, held_out_of, make_domain, name_of
from ..errors import ConfigError, DataError
from ..options import json_object
from ..packages import MODELS
from ..tiny import embedded_name
from .answers import identity

_FIXED = {name: value for name, value in DEFAULTS.items() if name != "chat_template_kwargs"}  # the prompt's stay
PRESETS: dict[str, dict[str, Any]] = {
    "joint_rloo": {**_FIXED, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "max_new_tokens": 2048},
    "cdg": {**_FIXED, "temperature": 0.95, "top_k": 10, "max_new_tokens": 8192},
}
"""Sampling settings of the presets, without stop strings. joint_rloo: Allen and Ståblein, section 4, for all compared
models. cdg: Wang et al. 2025, appendix C.1, majority voting (its pass@1 is greedy, and `eval --eval_preset cdg` also
answers greedily)."""

RULES: dict[str, dict[str, Any]] = {"joint_rloo": {"leading_minus": True}}
"""Fields of Countdown's Rules that a preset changes, as in its paper's comparison."""

SAMPLES = {"cdg": 32}
"""Answers per problem of a preset if not 16; cdg: for majority@8 and majority@32."""

TRAINING = "training"
"""Name of the preset that keeps the sampling settings of the role in training."""

HELDOUT = "heldout-v1"
DEFAULT_COUNT = 500

_RANGES = ("number_low", "number_high", "target_low", "target_high")  # of ProblemSpec
_COUNTDOWN = ("operands", "prover_prompt", "conjecturer_prompt", "answer_rule")
_OF_ROLE = ("temperature", "top_p", "top_k", "max_new_tokens", "stop_strings")
_FIELD = {"max_new_tokens": "max_completion_length", "stop_strings": "stop"}  # names that differ in a run
_PUBLIC = {**PRESETS["joint_rloo"], "stop_strings": None}
_LADDER = {"prover": 6, "conjecturer": 24}  # tokens of a text of the ladder's models


@dataclass(frozen=True)
class Setting:
    """Setting of an evaluation. source: description of its origin. sampling: values of names in asking.DEFAULTS, with
    `stop_strings` as a list in the result of `setting_of`."""

    source: str
    domain: Any
    sampling: dict[str, Any]


def setting_of(options: argparse.Namespace) -> Setting:
    """Return the setting of the model's run, or a default, overridden by the command line."""
    run, embedded = find_run(options.model), embedded_name(options.model)
    beside = MODELS.get(embedded or "")
    climbing = embedded is not None and embedded.startswith("tiny-ladder")
    limit = beside.max_new_tokens if beside is not None else _LADDER[options.role] if climbing else 16
    sampling = _PUBLIC if embedded is None else {"max_new_tokens": limit}
    if run is not None:
        base = _of_run(run, options)
    elif options.domain not in (None, "countdown"):
        base = Setting("the options", make_domain(options.domain, options.domain_kwargs), sampling)
    elif beside is not None:
        base = Setting(f"the models of {beside.domain}", make_domain(beside.domain, options.domain_kwargs), sampling)
    elif embedded is not None:
        domain = CountdownDomain.ladder() if climbing else CountdownDomain.tiny()
        base = Setting("the ladder's models" if climbing else "the tiny model", domain, sampling)
    else:
        base = Setting("the public 0.5B checkpoints", CountdownDomain(), sampling)
    given = {name: value for name, value in vars(options).items() if value is not None}
    settings = {**DEFAULTS, "stop_strings": None, **preset(given.get("eval_preset", TRAINING), base.sampling)}
    if options.role != "prover":  # a preset's are of answers
        settings["stop_strings"] = base.sampling.get("stop_strings")
    settings |= {name: given[name] for name in DEFAULTS if name in given}
    settings["generation_kwargs"] = check_generation_kwargs(settings["generation_kwargs"])
    settings["chat_template_kwargs"] = json_object("chat_template_kwargs", settings["chat_template_kwargs"])
    domain = _changed(base.domain, given)
    stops = domain.stop_strings(options.role) if settings["stop_strings"] is None else settings["stop_strings"]
    return Setting(base.source, domain, {**settings, "stop_strings": list(stops or [])})


def roles_of(model: str) -> list[str]:
    """Return the roles that the model played according to its folder, [] if unknown."""
    run = find_run(model)
    with suppress(DataError):  # neither file is needed
        if (Path(model) / ROLES_FILE).is_file():
            return [str(role) for role in json_file(Path(model) / ROLES_FILE, roles=list)["roles"]]
        if run is not None and run.parent == Path(model).resolve():
            trained_role = json_file(run, config=dict)["config"].get("role")  # sft and ipo train one role
            return [] if trained_role is None else [str(trained_role)]
        if run is not None:  # an adapter in a checkpoint has no file of ours, but the name of its role
            return [Path(model).resolve().name]
    return []


def role_of(model: str, requested: str | None) -> str:
    """Return the role to score: the requested one, else prover. Raises ConfigError if the folder is a conjecturer's
    alone and no role is requested: the model was never trained to answer as a prover."""
    if requested is None and roles_of(model) == ["conjecturer"]:
        raise ConfigError(f"'{model}' was trained as a conjecturer; pass --role conjecturer, or --role prover anyway.")
    return requested or "prover"


def find_run(model: str) -> Path | None:
    """Return the path of run.json in the model's folder or one of the two above it; None without one."""
    folder = Path(model)
    if not folder.is_dir():
        return None
    places = [folder.resolve(), *folder.resolve().parents[:2]]
    return next((place / "run.json" for place in places if (place / "run.json").is_file()), None)


def _of_run(path: Path, options: argparse.Namespace) -> Setting:
    role = options.role
    with json_shape(path, "the setting of a run", "move the model elsewhere to score it without", config=dict) as run:
        config = run["config"]
        name = options.domain or config.get("domain", "countdown")
        value_of_run = config.get("domain_kwargs") if name == config.get("domain") else None
        kwargs = options.domain_kwargs if options.domain_kwargs is not None else value_of_run
        if name == "countdown":
            spec = ProblemSpec(tuple(dict.fromkeys(config["operands"])), *(config[name] for name in _RANGES))
            prompts = (config["prover_prompt"], config["conjecturer_prompt"])
            moves = {name: config[name] for name in ("answers", "value_high") if name in config}
            domain: Any = CountdownDomain(spec, Rules.from_dict(run["rules"]), *prompts, **moves)
        else:
            domain = make_domain(name, kwargs)
        sampling = shared_of(config)
        for name in _OF_ROLE:
            field = _FIELD.get(name, name)
            value_of_run = config.get(f"{role}_{field}")
            sampling[name] = config[field] if value_of_run is None and field != "stop" else value_of_run
        if role == "prover" and options.eval_preset is None:
            sampling = preset(config.get("eval_preset", TRAINING), sampling)
    return Setting(f"run '{run.get('name', path.parent.name)}'", domain, sampling)


def _changed(domain: Any, given: dict[str, Any]) -> Any:
    named = [name for name in (*_RANGES, *_COUNTDOWN, "value_high") if name in given]
    if not isinstance(domain, CountdownDomain):
        if named:
            raise ConfigError(
                f"`--{named[0]}` ({given[named[0]]}) is Countdown's; leave it out for '{name_of(domain)}'."
            )
        return domain
    if "domain_kwargs" in given:
        raise ConfigError(
            f"`--domain_kwargs` ({given['domain_kwargs']}) is not for Countdown; set --operands and the like."
        )
    ranges: dict[str, Any] = {name: given[name] for name in _RANGES if name in given}
    if "operands" in given:
        ranges["operands"] = tuple(dict.fromkeys(given["operands"]))
    prover_prompt = given.get("prover_prompt", domain.prover_prompt)
    moves = prover_prompt in MOVES_PROMPTS
    rules = dataclasses.replace(domain.rules, **({} if moves else RULES.get(given.get("eval_preset", TRAINING), {})))
    if "prover_prompt" in given:  # the compact prompts are those whose answers have no tags
        rules = dataclasses.replace(rules, answer_format="bare" if prover_prompt in BARE_PROMPTS else "tags")
    if "answer_rule" in given:
        rules = dataclasses.replace(rules, answer_rule=given["answer_rule"])
    return dataclasses.replace(
        domain,
        spec=dataclasses.replace(domain.spec, **ranges),
        rules=rules,
        prover_prompt=prover_prompt,
        conjecturer_prompt=given.get("conjecturer_prompt", domain.conjecturer_prompt),
        answers="moves" if moves else "whole",
        value_high=given.get("value_high", domain.value_high),
    )


@dataclass(frozen=True)
class ProblemSet:
    """Problems of an evaluation. name: origin of the problems. strata: a label per problem; None without labels."""

    name: str
    problems: list[Any]
    strata: list[str | None] | None = None

    def to_dict(self, domain: Domain[Any]) -> dict[str, Any]:
        """Return the identity of the problems for a result: origin, number, and SHA-256 of problems and strata."""
        rows = [identity(domain, problem) for problem in self.problems]
        digest = hashlib.sha256(json.dumps([rows, self.strata]).encode()).hexdigest()
        return {"problems": self.name, "n_problems": len(rows), "problems_sha256": digest}


def problem_set(options: argparse.Namespace, domain: Domain[Any]) -> ProblemSet:
    """Return the problems that the options select, by default held-out ones. Raises DataError if there is none."""
    if options.problems is None and (options.rungs or options.problems_per_rung or in_moves(domain)):
        return _of_rungs(domain, options)
    if options.problems is None:
        source = "the generator's held-out side" if domain.held_out is not None else "random problems of the domain"
        return ProblemSet(source, held_out_of(domain, options.n_problems or DEFAULT_COUNT))
    if options.problems == HELDOUT and isinstance(domain, CountdownDomain):
        kept = [p for p in heldout_problems() if not options.operands or len(p.numbers) in options.operands]
        selected = ProblemSet(HELDOUT, kept[: options.n_problems])
    else:
        selected = _from_file(domain, options)
    if options.rungs or options.problems_per_rung:
        selected = _some_rungs(selected, domain, options)
    if not selected.problems:
        chosen = " of these operand counts or rungs" if options.operands or options.rungs else ""
        raise DataError(f"'{options.problems}' has no problem{chosen}.")
    return selected


def _of_rungs(domain: Any, options: argparse.Namespace) -> ProblemSet:
    """Return the same number of held-out problems of each rung, or held-out problems if the domain has no rungs."""
    if domain.held_out_of_rung is None and not (options.rungs or options.problems_per_rung):
        return ProblemSet("the domain's held-out problems", held_out_of(domain, options.n_problems or DEFAULT_COUNT))
    if options.n_problems and options.problems_per_rung:
        raise ConfigError(
            f"`--n_problems` ({options.n_problems}) and `--problems_per_rung` ({options.problems_per_rung}) exclude "
            "each other; pass one of them."
        )
    count = len(options.rungs or domain.rungs) or 1
    each = options.problems_per_rung or max(1, (options.n_problems or DEFAULT_COUNT) // count)
    return ProblemSet("the held-out side, by rung", held_out_by_rung(domain, options.rungs, each))


def _some_rungs(problem_set: ProblemSet, domain: Any, options: argparse.Namespace) -> ProblemSet:
    """Keep the first problems of each requested rung. Raises ConfigError for a domain without rungs."""
    if domain.rung is None:
        raise ConfigError(
            f"`--rungs` and `--problems_per_rung` need a domain with `rung` (contract/domain.py), and "
            f"'{name_of(domain)}' lacks it; leave them out."
        )
    kept: list[int] = []
    seen: Counter[int] = Counter()
    for i, problem in enumerate(problem_set.problems):
        rung = domain.rung(problem)
        if (options.rungs and rung not in options.rungs) or seen[rung] == (options.problems_per_rung or -1):
            continue
        seen[rung] += 1
        kept.append(i)
    strata = None if problem_set.strata is None else [problem_set.strata[i] for i in kept]
    return ProblemSet(problem_set.name, [problem_set.problems[i] for i in kept], strata)


def _from_file(domain: Domain[Any], options: argparse.Namespace) -> ProblemSet:
    from datasets.utils import disable_progress_bars

    from ..data.files import checked_problems, load_problem_rows

    disable_progress_bars()
    rows = list(islice(load_problem_rows(options.problems, options.split), options.n_problems))
    strata = [None if row.get("stratum") is None else str(row["stratum"]) for row in rows]
    problems = checked_problems(domain, rows, options.problems)
    return ProblemSet(options.problems, problems, strata if any(label is not None for label in strata) else None)


def preset(name: str, trained: dict[str, Any]) -> dict[str, Any]:
    """Return the sampling settings `trained`, overridden by the preset; the training preset changes nothing."""
    return {**trained, **PRESETS.get(name, {})}
