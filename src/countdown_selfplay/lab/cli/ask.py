"""`countdown-selfplay ask`: put one problem to a trained prover, or ask a trained conjecturer for problems."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...cli.plain import add_options, parser_of, positive, problem_of
from ...contract.domain import in_moves
from ...countdown import CountdownDomain, Problem, solve
from ...countdown.exact.solver import MAX_OPERANDS
from ...data.jsonl import json_file
from ...data.run_files import step_of
from ...errors import ConfigError
from ...evaluation.setting import find_run, roles_of, setting_of
from ...evaluation.terminal import aligned
from ...tiny import EMBEDDED, embedded_name

EPILOG = """\
examples: countdown-selfplay ask --model runs/tiny-joint/prover 3 5 7 --target 22
          countdown-selfplay ask --model runs/tiny-joint/conjecturer -n 8
          countdown-selfplay ask --model tiny-ladder 2 3 5 7 --target 24 --answers moves

Prompts, answer rules and sampling are those of the run whose run.json lies beside the model, or the embedded model's.
Each answer comes with the verifier's verdict. Each proposal comes with the reason of its admission or refusal, and
with a solution of the exact solver up to six numbers. To a conjecturer of self-guided self-play the numbers and the
target are the problems with which its problems help."""

_LONGEST = 100  # characters of a text in the table


def main(argv: list[str]) -> int:
    options = parse(argv)
    check_model(options.model)
    written = embedded_name(options.model) in ("tiny-ladder-conjecturer", "tiny-ladder-asked")
    played = ["conjecturer"] if written else roles_of(options.model)
    kinds = {role.partition("/")[0].partition("_")[0] for role in played}
    options.role = options.role or ("conjecturer" if kinds == {"conjecturer"} else "prover")
    setting = setting_of(options)
    domain = setting.domain
    if not isinstance(domain, CountdownDomain):
        raise ConfigError(
            f"`ask` puts problems of Countdown, and '{options.model}' was trained on another domain "
            f"({setting.source}); use eval."
        )
    problem = asked_problem(options, domain)
    if options.answers == "moves" and not (options.role == "prover" and in_moves(domain)):
        raise ConfigError(
            f"`--answers` (moves) is for a prover that answers in moves, such as tiny-ladder, and '{options.model}' "
            "does not; leave it out."
        )
    from ...evaluation.model import load_model, place_of

    run = find_run(options.model)
    proposer = None if run is None else json_file(run, config=dict)["config"].get("proposer")
    asks = [] if options.role == "prover" else list(asks_of(domain, problem, proposer))[: options.n]
    rows = [domain.propose_row(**ask) for ask in asks] if problem is None or asks else [domain.prove_row(problem)]
    prompts, given = [row["prompt"] for row in rows], setting.sampling["chat_template_kwargs"]
    model, tokenizer = load_model(options.model, place_of(options.device), prompts, given)
    sampling = {**setting.sampling, "seed": options.seed}
    if options.role == "prover":
        lines = answers(model, tokenizer, domain, problem, options, sampling)
    else:
        lines = [proposals(model, tokenizer, domain, asks, prompts, options.n, sampling)]
    print("\n".join(lines))
    print(f"\n{options.role} of {options.model}; setting of {setting.source}; temperature "
          f"{sampling['temperature']:g}, seed {options.seed}")  # fmt: skip
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    parser = parser_of("ask", EPILOG)
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="the numbers of the problem")
    add_options(parser, "model", role="what to ask it as (default: as its folder says, or prover)")
    parser.add_argument("--target", metavar="T", help="the integer to reach")
    parser.add_argument("-n", type=positive, default=4, metavar="N", help="answers or proposals (default: 4)")
    moves = "moves: a line for each move (default: whole)"
    parser.add_argument("--answers", choices=("whole", "moves"), default="whole", help=moves)
    add_options(parser, "device", temperature="0 is greedy (default: the run's)", seed="of the sampling (default: 0)")
    options = parser.parse_args(argv)
    options.domain = options.domain_kwargs = options.eval_preset = None
    if options.temperature is not None and not 0 <= options.temperature < float("inf"):
        raise ConfigError(f"`--temperature` ({options.temperature}) must be at least 0, and 0 is greedy.")
    return options


def check_model(name: str) -> None:
    """Raise ConfigError, with an alternative, for a folder without a model."""
    folder = Path(name)
    local = name.startswith((".", "/", "~", "runs/")) or name.count("/") > 1
    if name in EMBEDDED or not (folder.is_dir() or local):
        return
    if not folder.is_dir():
        known = ", ".join(EMBEDDED)
        raise ConfigError(f"There is no folder '{name}'; pass the folder of a model, a hub id, or one of {known}.")
    own, inside, saved = (  # folders with weights of Transformers or PEFT
        sorted({path.parent for kind in ("config", "adapter_config") for path in folder.glob(f"{below}{kind}.json")})
        for below in ("", "*/", "checkpoint-*/*/")
    )
    if own:
        return
    if inside:
        raise ConfigError(f"'{name}' holds no model itself; pass one of those in it: {', '.join(map(str, inside))}.")
    if saved:
        newest = max(saved, key=lambda place: step_of(place.parent))
        raise ConfigError(f"The run in '{name}' is not finished and has exported no model; its newest is '{newest}'.")
    raise ConfigError(f"'{name}' holds no model (no config.json or adapter_config.json); pass the folder of one.")


def asked_problem(options: argparse.Namespace, domain: CountdownDomain) -> Problem | None:
    """Return the problem on the command line; None without one, which only a conjecturer allows."""
    if not options.numbers and options.target is None:
        if options.role == "prover":
            raise ConfigError("A prover needs a problem: give its numbers and --target, such as 3 5 7 --target 22.")
        return None
    if not options.numbers or options.target is None:
        lacks = "--target" if options.numbers else "numbers"
        raise ConfigError(f"The problem has no {lacks}; give both, such as 3 5 7 --target 22.")
    problem = problem_of(options.numbers, options.target)
    if (outside := domain.outside(problem)) is not None:
        raise ConfigError(f"The problem is not one of those that '{options.model}' plays: {outside}; give another.")
    return problem


def answers(
    model: Any, tokenizer: Any, domain: CountdownDomain, problem: Any, options: argparse.Namespace, sampling: dict
) -> list[str]:
    """Return a table of answers and verdicts, and the exact solver's result."""
    from ...evaluation.episodes import sample_episodes
    from ...evaluation.sampling import sample_completions

    if in_moves(domain):
        (played,) = sample_episodes(model, tokenizer, [problem], domain, options.n, **sampling)
        texts, verdicts = [one.text for one in played], [one.verdict for one in played]
    else:
        prompt = domain.prove_row(problem)["prompt"]
        (drawn,) = sample_completions(model, tokenizer, [prompt], options.n, **sampling)
        texts = [completion.text for completion in drawn]
        verdicts = domain.verify(texts, [problem] * options.n)
    rows: list[tuple[str, ...]] = [("", "answer", "verdict")]
    for i, (text, verdict) in enumerate(zip(texts, verdicts, strict=True), start=1):
        value = getattr(verdict, "value", None)
        word = str(verdict.reason) + ("" if verdict.correct or value is None else f" ({value})")
        lines = text.splitlines() if options.answers == "moves" and text.strip() else [one_line(text)]
        rows += [(str(i) if k == 0 else "", line, word if k == len(lines) - 1 else "") for k, line in enumerate(lines)]
    right = sum(bool(verdict.correct) for verdict in verdicts)
    return [aligned(rows), "", f"{right} of {options.n} right. Exact solver: {word_of(problem, domain)}."]


def proposals(
    model: Any, tokenizer: Any, domain: CountdownDomain, asks: Sequence[Any], prompts: list[Any], n: int, how: dict
) -> str:
    """Return a table of `n` proposals with the reasons of the admission and the exact solver's result."""
    from ...curriculum.admission import examine
    from ...evaluation.sampling import sample_completions

    each = -(-n // len(asks))
    drawn = sample_completions(model, tokenizer, prompts, each, **how)
    requests = [ask for column in zip(*([ask] * each for ask in asks), strict=True) for ask in column][:n]
    texts = [one.text for column in zip(*drawn, strict=True) for one in column][:n]
    rows: list[tuple[str, ...]] = [("", "proposal", "gate", "exact solver")]
    for i, (text, proposal) in enumerate(zip(texts, examine(domain, texts, requests), strict=True), start=1):
        held_out = proposal.reason == "ok" and domain.is_held_out(proposal.problem)
        solver = "-" if proposal.problem is None else word_of(proposal.problem, domain)
        rows.append((str(i), one_line(text), "held_out" if held_out else proposal.reason, solver))
    return aligned(rows)


def asks_of(domain: CountdownDomain, problem: Problem | None, proposer: str | None) -> Sequence[Mapping[str, Any]]:
    """Return the requests to the conjecturer: those of its run, or for `problem`."""
    if problem is None and proposer == "stp":
        raise ConfigError("This conjecturer varies solved problems; give one, such as 3 5 7 --target 22.")
    if problem is None:
        return [{"target": None}] if proposer == "targets" else domain.asks
    if proposer == "targets":
        return [{"target": problem}]
    if proposer != "stp":
        raise ConfigError(
            "Numbers and target are for a conjecturer of self-guided self-play, and this one is none; leave them out, "
            "or pass --role prover."
        )
    solution = solve(problem, domain.rules)
    if solution is None:
        raise ConfigError(f"This conjecturer varies solved problems, and {problem.key} has no solution; give another.")
    return [{"variant_of": problem, "solution": solution}]


def word_of(problem: Problem, domain: CountdownDomain) -> str:
    if not domain.in_range(problem):
        return "not asked (out of range)"
    if len(problem.numbers) > MAX_OPERANDS:
        return f"not asked ({len(problem.numbers)} numbers)"
    return solve(problem, domain.rules) or "no solution"


def one_line(text: str) -> str:
    """Return a text for a cell: lines joined by "; ", truncated if it is long."""
    joined = "; ".join(" ".join(line.split()) for line in text.strip().splitlines() if line.strip()) or "(empty)"
    return joined if len(joined) <= _LONGEST else f"{joined[: _LONGEST - 4]} ..."
