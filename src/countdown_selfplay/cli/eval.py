"""`countdown-selfplay eval`: what a model can do in a role, with 95% intervals, on held-out problems or a file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, get_args

from ..countdown import CONJECTURER_PROMPTS, PROVER_PROMPTS, AnswerRule, CountdownDomain, Problem, problem_from_row
from ..countdown import generate_problems as generate
from ..errors import ConfigError, DataError
from .countdown_options import OneLineParser, RawDescription
from .eval_setting import Setting, setting_of
from .tables import aligned

Row = tuple[str, ...]

HELP = "Score a prover or a conjecturer on held-out problems, with 95% intervals"

EPILOG = """\
examples: countdown-selfplay eval --model tiny
          countdown-selfplay eval --model runs/tiny-joint/prover --problems test.jsonl --samples 32 --output eval.json
          countdown-selfplay eval --model runs/tiny-joint/conjecturer --role conjecturer

What is not given comes from the run.json in or above the model's folder, so that a policy is scored in the setting it
was trained in; for the embedded model (tiny) from its own setting; otherwise from that of the public 0.5B checkpoints.
exit codes: 0 done, 2 wrong input"""


def main(argv: list[str]) -> int:
    """Evaluate, print the table and with --output write everything as JSON."""
    options = parse(argv)
    setting = setting_of(options)
    problems = [] if options.role == "conjecturer" else problems_of(options, setting.domain)
    if options.output is not None and options.output.is_dir():
        raise ConfigError(f"`--output` ({options.output}) is a folder; pass the name of a file such as eval.json.")
    model, tokenizer = load_model(options.model, options.device)
    evaluate = evaluate_as_prover if options.role == "prover" else evaluate_as_conjecturer
    result, rows = evaluate(options, setting, problems, model, tokenizer)
    print(aligned([(options.role, "estimate", "95% interval"), *rows]))
    for line in remarks(options, setting, result):
        print(line)
    if options.output is not None:
        write(options.output, {"model": options.model, "role": options.role, "from": setting.source, **result})
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    """The options; `--n-problems` and `--n_problems` are the same."""
    parser = OneLineParser(
        prog="countdown-selfplay eval", description=HELP + ".", epilog=EPILOG, formatter_class=RawDescription
    )
    parser.add_argument("--model", required=True, help="a model or adapter folder, a hub id, or tiny")
    parser.add_argument("--role", choices=("prover", "conjecturer"), default="prover")
    parser.add_argument(
        "--problems", metavar="FILE", help="a .jsonl or .parquet file (numbers or nums, target) or hub id"
    )
    parser.add_argument("--split", default="test", help="split of a hub data set (default: test)")
    parser.add_argument("--n_problems", type=_positive, default=500, help="how many held-out problems (default: 500)")
    parser.add_argument("--samples", type=_positive, help="answers per problem (16), or proposals in all (1024)")
    parser.add_argument("--batch_size", type=_positive, help="texts generated at once (1024 short or 128 long ones)")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and intervals (default: 0)")
    parser.add_argument("--device", help="such as cpu or cuda:1 (default: the GPU if there is one)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the result as JSON")
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--temperature", type=float, help="0 is greedy")
    sampling.add_argument("--top_p", type=float, help="1 switches it off")
    sampling.add_argument("--top_k", type=int, help="0 switches it off")
    sampling.add_argument("--max_new_tokens", type=_positive, help="tokens after which an answer is cut")
    domain = parser.add_argument_group("problems and answers")
    domain.add_argument("--prover_prompt", choices=tuple(PROVER_PROMPTS))
    domain.add_argument("--conjecturer_prompt", choices=tuple(CONJECTURER_PROMPTS))
    domain.add_argument("--answer_rule", choices=get_args(AnswerRule), help="which answer tag counts")
    domain.add_argument("--operands", type=_positive, nargs="+", help="operand counts of the problems")
    for name in ("number_low", "number_high", "target_low", "target_high"):
        domain.add_argument(f"--{name}", type=int, metavar="N")
    return parser.parse_args([_underscored(argument) for argument in argv])


def problems_of(options: argparse.Namespace, domain: CountdownDomain) -> list[Problem]:
    """The problems of the file, or of the generator's held-out side, which no training problem is on."""
    if options.problems is None:
        return generate(options.n_problems, domain.spec, seed=0, split="heldout")
    from datasets.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    from ..data import load_problem_rows

    quiet = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        rows = load_problem_rows(options.problems, options.split)
    finally:
        if not quiet:
            enable_progress_bars()
    problems = [problem_from_row(row, i) for i, row in enumerate(rows)]
    if not problems:
        raise DataError(f"'{options.problems}' has no row.")
    return problems


def load_model(name: str, device: str | None) -> tuple[Any, Any]:
    """Model and tokenizer of a folder, an adapter folder, a hub id or "tiny"."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    if name == "tiny":
        from ..tiny import TINY_MODEL_PATH

        name = str(TINY_MODEL_PATH)
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:  # torch raises either, by what is missing
        raise ConfigError(f"`--device` ({device}) cannot be used: {str(error).splitlines()[0]}") from error
    # Half precision where the checkpoint has it, except on a CPU, where it is slow and coarse.
    kwargs: dict[str, Any] = {"dtype": torch.float32 if place.startswith("cpu") else "auto"}
    bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # its line would stand in the middle of the table's
    try:
        if (Path(name) / "adapter_config.json").is_file():
            from peft import AutoPeftModelForCausalLM

            model = AutoPeftModelForCausalLM.from_pretrained(name, **kwargs)
        else:
            model = AutoModelForCausalLM.from_pretrained(name, **kwargs)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        what = "a folder without a model" if Path(name).is_dir() else "neither a folder nor a hub model in reach"
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"The model '{name}' cannot be loaded: it is {what} ({first})") from error
    finally:
        if bar:
            logging.enable_progress_bar()
    return model.to(place).eval(), tokenizer


def evaluate_as_prover(
    options: argparse.Namespace, setting: Setting, problems: list[Problem], model: Any, tokenizer: Any
) -> tuple[dict[str, Any], list[Row]]:
    """The result as JSON values, and the rows of the table: pass@k, also by operand count if there are several."""
    from ..evaluation.bootstrap import bootstrap_mean
    from ..evaluation.pass_at_k import pass_at_k_array
    from ..evaluation.roles import evaluate_prover

    n = options.samples or 16
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128, 256) if k <= n]
    sampling = {**setting.sampling, "seed": options.seed, "batch_size": batch_size(options, setting)}
    found = evaluate_prover(model, tokenizer, problems, setting.domain, n=n, ks=ks, **sampling)
    rows: list[Row] = [(f"pass@{k}", *_cells(estimate.to_dict())) for k, estimate in found.pass_at.items()]
    rows.append(("mean score", *_cells(found.score.to_dict())))
    result = {**found.to_dict(), "keys": [problem.key for problem in problems]}
    counts = sorted({len(problem.numbers) for problem in problems})
    if len(counts) > 1:
        result["by_operands"] = {}
        for count in counts:
            correct = [c for c, p in zip(found.correct, problems, strict=True) if len(p.numbers) == count]
            strata = {k: bootstrap_mean(pass_at_k_array(correct, n, k), seed=options.seed) for k in (1, ks[-1])}
            result["by_operands"][str(count)] = {
                "problems": len(correct),
                "pass_at": {str(k): estimate.to_dict() for k, estimate in strata.items()},
            }
            rows += [(f"pass@{k}, {count} operands", *_cells(e.to_dict())) for k, e in strata.items()]
    return result, rows


def evaluate_as_conjecturer(
    options: argparse.Namespace, setting: Setting, _: list[Problem], model: Any, tokenizer: Any
) -> tuple[dict[str, Any], list[Row]]:
    """The result as JSON values, and the rows of the table: the rates that exist."""
    from ..evaluation.roles import evaluate_conjecturer

    sampling = {**setting.sampling, "seed": options.seed, "batch_size": batch_size(options, setting)}
    found = evaluate_conjecturer(model, tokenizer, setting.domain, n=options.samples or 1024, **sampling)
    result = found.to_dict()
    names = [name for name in ("parseable", "in_range", "solvable", "unique") if name in result]
    return result, [(name.replace("_", " "), *_cells(result[name])) for name in names]


def batch_size(options: argparse.Namespace, setting: Setting) -> int:
    """Texts at once: what was asked for, or as many as suit the memory that texts of this length take."""
    return options.batch_size or (1024 if setting.sampling["max_new_tokens"] <= 64 else 128)


def remarks(options: argparse.Namespace, setting: Setting, result: dict[str, Any]) -> list[str]:
    """What one must know to read the table."""
    size = (
        f"{result['problems']} problems x {result['n']} answers"
        if options.role == "prover"
        else f"{result['n']} proposals"
    )
    sampling = ", ".join(f"{name} {value}" for name, value in setting.sampling.items())
    reasons = ", ".join(f"{reason} {count}" for reason, count in result["reasons"].items())
    lines = [
        f"{size} in {result['seconds']:.1f} s; setting of {setting.source}; {sampling}, seed {options.seed}",
        f"reasons: {reasons}",
    ]
    if result["truncated_rate"] > 0.01:
        lines.append(
            f"warning: {result['truncated_rate']:.1%} of the texts were cut at {setting.sampling['max_new_tokens']} "
            "tokens; raise --max_new_tokens before comparing models"
        )
    if result.get("several_answers_rate", 0) > 0.01:
        lines.append(f"warning: {result['several_answers_rate']:.1%} of the answers hold several answer tags")
    return lines


def write(path: Path, result: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"`--output` ({path}) cannot be written: {error.strerror}.") from error
    print(f"Wrote {path}")


def _cells(estimate: dict[str, float]) -> tuple[str, str]:
    return f"{estimate['value']:.4f}", f"[{estimate['low']:.4f}, {estimate['high']:.4f}]"


def _positive(word: str) -> int:
    if not (word.isascii() and word.isdigit() and int(word) > 0):
        raise argparse.ArgumentTypeError(f"'{word}' is no whole number above 0")
    return int(word)


def _underscored(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if name.startswith("--") else argument


if __name__ == "__main__":
    from .main import main as program

    raise SystemExit(program(["eval", *sys.argv[1:]]))
