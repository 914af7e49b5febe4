"""`countdown-selfplay dataset --hard_for MODEL`: find problems that a model rarely solves. Only `search` loads
torch."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..countdown import CountdownDomain
from ..errors import ConfigError
from ..evaluation.model import device_name, folder_of, load_model, place_of, versions, weights_digest
from ..evaluation.setting import ATTEMPTS, MOST, TRAINING, find_run, setting_of
from .plain import add_options, positive, texts_at_once

if TYPE_CHECKING:
    from ..evaluation.hard import HardProblems

OWN = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": 1024}
"""Sampling settings for a model that no run of this library trained: those of the recipe qwen2.5-0.5b/sgs."""

PART = 64
"""Problems per part of a search; results are stored after each part, so that an interrupted search continues."""

_NAMES = ("attempts", "most", "temperature", "max_new_tokens", "batch_size", "device")


def check(options: Namespace) -> None:
    """Raise ConfigError for options that need --hard_for, or that contradict it, before torch loads."""
    if options.hard_for is None:
        given = [name for name in _NAMES if vars(options)[name] is not None]
        if given:
            raise ConfigError(f"`--{given[0]}` is for --hard_for; name the model there, or leave it out.")
        return
    attempts, most = attempts_of(options)
    if not 0 <= most < attempts:
        raise ConfigError(
            f"`--most` ({most}) must be at least 0 and less than `--attempts` ({attempts}): a problem that is solved "
            "more often is left out."
        )
    conditions = [name for name in ("min_solutions", "max_solutions", "needs") if vars(options)[name] is not None]
    if conditions or options.split != "train":
        name = conditions[0] if conditions else "split"
        raise ConfigError(
            f"`--{name}` ({vars(options)[name]}) does not go with --hard_for, which chooses by the model alone, on "
            "the training side; leave it out."
        )


def attempts_of(options: Namespace) -> tuple[int, int]:
    """Return the number of attempts at a problem, and the greatest number of right ones that a hard problem may
    have."""
    return options.attempts or ATTEMPTS, MOST if options.most is None else options.most


def setting(options: Namespace, domain: CountdownDomain) -> tuple[CountdownDomain, dict[str, Any]]:
    """Return the domain and the sampling settings of the attempts: those of the model's training where it has a
    run.json or is an embedded model, overridden by the options given. Ranges and rules of the problems are always
    those of the options."""
    request = {"model": options.hard_for, "role": "prover", "eval_preset": TRAINING}
    base = setting_of(Namespace(**request, domain=None, domain_kwargs=None))
    known = options.hard_for == "tiny" or find_run(options.hard_for) is not None
    sampling = dict(base.sampling if known else OWN)
    sampling |= {name: v for name in ("temperature", "max_new_tokens") if (v := vars(options)[name]) is not None}
    own = known and isinstance(base.domain, CountdownDomain)
    prompt = base.domain.prover_prompt if own and options.prover_prompt is None else domain.prover_prompt
    rules = replace(
        base.domain.rules if own else domain.rules,
        use_all=domain.rules.use_all,
        integers_only=domain.rules.integers_only,
        answer_format="bare" if prompt == "compact" else "tags",  # the compact prompt's answers have no tags
    )
    return replace(domain, prover_prompt=prompt, rules=rules), sampling


def search(
    options: Namespace, domain: CountdownDomain, excluded: set[str], file: Path
) -> tuple[CountdownDomain, HardProblems, dict[str, Any]]:
    """Return the domain, the hard problems, and a description of the search. `file`: attempts of an interrupted
    search, which is continued."""
    from ..evaluation.hard import AttemptFile, hard_problems
    from ..evaluation.terminal import ProgressLine

    domain, sampling = setting(options, domain)
    attempts, most = attempts_of(options)
    place = place_of(options.device)
    prompts, given = [domain.prove_row(domain.longest)["prompt"]], sampling.get("chat_template_kwargs")
    model, tokenizer = load_model(options.hard_for, place, prompts, given)
    folder = folder_of(options.hard_for)
    size = texts_at_once(options.batch_size, sampling["max_new_tokens"])
    how = {"model": options.hard_for, "weights": folder and weights_digest(folder), "prompt": domain.prover_prompt}
    how |= {"attempts": attempts, "most": most, "batch_size": size, **sampling, "device": device_name(place)}
    request = how | {"count": options.count, "seed": options.seed, "part": PART, "domain": domain.to_dict()}
    request |= {"excluded": sorted(excluded), "versions": versions()}
    with ProgressLine("attempts at a part of the problems") as bar:
        sampling |= {"progress": bar, "batch_size": size}
        rules = {"seed": options.seed, "attempts": attempts, "most": most, "exclude": excluded, "part": PART}
        rules |= {"file": AttemptFile(file, request), "say": lambda line: print(line, file=sys.stderr)}
        result = hard_problems(model, tokenizer, domain, options.count, **rules, **sampling)
    return domain, result, how


def add_hard_options(parser: argparse.ArgumentParser) -> None:
    """Add --hard_for and its options to the parser."""
    group = parser.add_argument_group(
        "hard problems (SGS, appendix D)",
        "Attempts are kept in a file next to OUT until it is written; the same call continues after an interruption.",
    )
    group.add_argument(
        "--hard_for", metavar="MODEL", help="only what this model rarely solves: a folder, a hub id, tiny"
    )
    group.add_argument("--attempts", type=positive, metavar="N", help=f"at each problem ({ATTEMPTS})")
    group.add_argument("--most", type=int, metavar="N", help=f"right ones that a hard problem may have ({MOST})")
    add_options(
        group,
        temperature="of the attempts (the model's own in training, else 1)",
        max_new_tokens="of an attempt (its own, else 1024)",
        batch_size="attempts at once (1024 short or 128 long ones)",
        device="such as cpu or cuda:1 (default: the GPU if there is one)",
    )
