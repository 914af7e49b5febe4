"""`countdown-selfplay eval`: score a model in a role, with 95% intervals, on held-out problems or on a file."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any, get_args

from ..asking import DEFAULTS
from ..config.recipes import underscored
from ..contract.domain import in_moves
from ..countdown import CONJECTURER_PROMPTS, PROVER_PROMPTS, AnswerRule
from ..domains import asked_of
from ..errors import ConfigError
from ..evaluation.model import device_name, dtype_on, folder_of, load_model, place_of, versions, weights_digest
from ..evaluation.setting import PRESETS, SAMPLES, TRAINING, ProblemSet, Setting, problem_set, role_of, setting_of
from ..evaluation.terminal import aligned, cells, rates
from ..packages import CALLED, absent_package, attribute_of
from .plain import add_options, file_name, parser_of, positive, texts_at_once, write_output

Row = tuple[str, ...]
TASKS = ("solve", "error_detection", "self_correction", "win_rates")

EPILOG = """\
examples: countdown-selfplay eval --model tiny
          countdown-selfplay eval --model runs/tiny-joint/prover --problems heldout-v1 --output prover.jsonl
          countdown-selfplay eval --model runs/tiny-joint/conjecturer --role conjecturer

Unset options default to the run.json in or above the model's folder, so that a policy is scored in its training
setting; for the embedded model (tiny) to its setting; otherwise to that of the public 0.5B checkpoints.

--output x.json writes the result. --output x.jsonl writes one row per answer below a line with the whole setting, and
the result to x.json; give the same command again after a kill and it goes on, with the rows of an uninterrupted run.
exit codes: 0 done, 2 wrong input"""


def main(argv: list[str]) -> int:
    """Evaluate the model, print the table, write the result with --output, and return 0."""
    options = parse(argv)
    tasks = critic_tasks(options.task)
    if tasks is not None:
        tasks.check_task(options)
    setting = setting_of(options)
    check_output(options)
    if tasks is not None and options.task != "solve":
        result = {"task": options.task, "model": options.model, "from": setting.source}
        result |= tasks.run_task(options, setting)
        if options.output is not None:
            write_output(options.output, {options.output: json.dumps(result, indent=1) + "\n"})
        return 0
    evaluate = evaluate_as_prover if options.role == "prover" else evaluate_as_conjecturer
    result, rows = evaluate(options, setting)
    print(aligned([(options.role, "estimate", "95% interval"), *rows]))
    for line in remarks(options, setting, result):
        print(line)
    if options.output is not None:
        if options.output.suffix == ".jsonl":
            print(f"Wrote {options.output}")
        path = options.output.with_suffix(".json")
        result = {"model": options.model, "role": options.role, "from": setting.source, **result}
        write_output(options.output, {path: json.dumps(result, indent=1) + "\n"})
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the options; `--n-problems` is read as `--n_problems`."""
    parser = parser_of("eval", EPILOG)
    add = parser.add_argument
    add_options(parser, "model", "seed", "device", "batch_size", role="what to score it as (default: prover)")
    add("--task", choices=TASKS, default="solve", help="the kind of evaluation (default: solve)")
    form = "a .jsonl or .parquet file (Countdown: numbers or nums, target; stratum, if it has one)"
    add("--problems", metavar="FILE", help=f"{form}, a hub id, or heldout-v1")
    add("--split", default="test", help="split of a hub data set (default: test)")
    add("--n_problems", type=positive, help="how many (500 generated ones, else all)")
    rungs: dict[str, Any] = {"type": positive, "nargs": "+", "metavar": "K"}
    add("--rungs", **rungs, help="problems of these rungs alone (Countdown: with so many numbers), as many of each")
    add("--problems_per_rung", type=positive, metavar="N", help="how many of each rung")
    score = "rungs whose mean is the score of the ladder (default: those of 4 to 10 that there are)"
    add("--ladder_rungs", **rungs, help=score)
    usual = "16; --eval_preset cdg 32, --task error_detection 8, self_correction 1, win_rates 4"
    add("--samples", type=positive, help=f"answers per problem ({usual}), or proposals (1024)")
    add("--output", type=file_name, metavar="FILE", help="see below: .json the result, .jsonl every answer")
    add("--disable_tqdm", action="store_true", help="no progress bar on stderr")
    add("--greedy", action="store_true", help="answer each problem greedily too (done by --eval_preset cdg)")
    tasks = critic_tasks()
    if tasks is not None:
        tasks.add_task_options(parser, positive)
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument(
        "--eval_preset",
        choices=(TRAINING, *PRESETS),
        help="a paper's setting for all of them (joint_rloo: T 0.6, top-p 0.95, top-k 20, 2048 tokens, no stop "
        "string, and one leading minus sign is accepted), or the model's own in training; default: what its run was "
        "evaluated in",
    )
    add_options(sampling, "temperature", "max_new_tokens")
    for name, neutral in {"top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}.items():
        kind = int if name == "top_k" else float
        sampling.add_argument(f"--{name}", type=kind, help=f"{neutral} switches it off")
    sampling.add_argument("--stop_strings", nargs="*", metavar="TEXT", help="texts that end an answer (none: no text)")
    for name, example in (("generation", '{"suppress_tokens": [5]}'), ("chat_template", '{"enable_thinking": false}')):
        sampling.add_argument(f"--{name}_kwargs", metavar="JSON", help=f"as in a run, such as '{example}'")
    add = parser.add_argument_group("problems and answers").add_argument
    add("--domain", metavar="NAME", help="the domain: countdown, or my_package.my_module:MyDomain")
    add("--domain_kwargs", metavar="JSON", help="arguments of a domain of your own")
    add("--prover_prompt", choices=tuple(PROVER_PROMPTS))
    add("--conjecturer_prompt", choices=tuple(CONJECTURER_PROMPTS))
    add("--answer_rule", choices=get_args(AnswerRule), help="which answer tag counts")
    add("--operands", type=positive, nargs="+", help="operand counts of the problems")
    for name in ("number_low", "number_high", "target_low", "target_high", "value_high"):
        add(f"--{name}", type=int, metavar="N")
    options = parser.parse_args([underscored(argument) for argument in argv])
    options.role = role_of(options.model, options.role)
    given = [name for name in ("rungs", "problems_per_rung", "ladder_rungs") if vars(options)[name] is not None]
    if given and options.role != "prover":
        raise ConfigError(
            f"`--{given[0]}` chooses problems for a prover, and the role is {options.role}; leave it out."
        )
    return options


def critic_tasks(task: str = "solve") -> Any:
    """Return the module of the Critic-Discernment Game's tasks, or None if the package `lab` is absent. Raises
    ConfigError if `lab` is absent and `task` is not "solve"."""
    place = CALLED["critic_tasks"]
    return None if task == "solve" and absent_package(place) else attribute_of(place, f"`--task {task}`")


def check_output(options: argparse.Namespace) -> None:
    """Raise ConfigError unless --output ends in .json or, for a prover, .jsonl."""
    if options.output is None:
        return
    if options.output.suffix not in (".json", ".jsonl"):
        raise ConfigError(f"`--output` ({options.output}) must end in .json, or .jsonl for a row per answer.")
    if options.role == "conjecturer" and options.output.suffix == ".jsonl":
        raise ConfigError(
            f"`--output` ({options.output}) asks for a row per answer, which only a prover gives; use a .json file."
        )


def evaluate_as_prover(options: argparse.Namespace, setting: Setting) -> tuple[dict[str, Any], list[Row]]:
    """Return the result as JSON values and the rows of the table: pass@k, majority@k and rates, then by stratum."""
    selected = problem_set(options, setting.domain)
    started = time.perf_counter()
    prompts = [setting.domain.prove_row(problem)["prompt"] for problem in selected.problems]
    load = cache(lambda: model_of(options, setting, prompts))  # greedy answers come from the same
    answers = collect(options, setting, selected, load)
    from ..evaluation.summary import LADDER, rungs_text, summarise

    result = summarise(answers, seed=options.seed, ladder_rungs=options.ladder_rungs or LADDER)
    if options.ladder_rungs and "ladder" not in result:
        raise ConfigError(
            f"`--ladder_rungs` ({rungs_text(options.ladder_rungs)}) must name two or more rungs of the problems, "
            f"which are {', '.join(result.get('by_rung', {})) or 'of one'}."
        )
    rows: list[Row] = []
    if options.greedy or options.eval_preset == "cdg":
        single = summarise(collect(*as_greedy(options, setting), selected, load), seed=options.seed)
        result["greedy"] = {name: single[name] for name in ("pass_at", "truncated_rate", "correct", "setting")}
        rows.append(("greedy pass@1", *cells(single["pass_at"]["1"])))
    result["seconds"] = round(time.perf_counter() - started, 3)
    rows += [(f"pass@{k}", *cells(estimate)) for k, estimate in result["pass_at"].items()]
    rows += [(f"majority@{k}", *cells(estimate)) for k, estimate in result.get("majority_at", {}).items()]
    known = (("score", "mean score"), ("format", "right format"), ("truncated", "truncated"))
    names = [(name, words) for name, words in known if name in result]
    rows += [(words, *cells(result[name])) for name, words in names]
    moves = in_moves(setting.domain)
    if "ladder" in result:
        score = result["ladder"]
        label = f"rungs {rungs_text(score['rungs'])}"
        rows += [(f"pass@{k}, {label}", *cells(score["pass_at"][k])) for k in ends_of(score["pass_at"])]
    if moves or "by_operands" not in result:  # of whole answers in Countdown the operand counts are the rungs
        for label, found in result.get("by_rung", {}).items():
            rows += [(f"pass@{k}, rung {label}", *cells(found["pass_at"][k])) for k in ends_of(found["pass_at"])]
    by_operands = {} if moves else result.get("by_operands", {})
    strata = [(f"{label} operands", found) for label, found in by_operands.items()]
    strata += result.get("by_stratum", {}).items()
    for label, found in strata:
        for kind in ("pass_at", "majority_at"):
            ks = ends_of(found.get(kind, {}))
            for k in ks if kind == "pass_at" else ks[-1:]:
                rows.append((f"{kind.removesuffix('_at')}@{k}, {label}", *cells(found[kind][k])))
        rows += [(f"{words}, {label}", *cells(found[name])) for name, words in names]
    return result, rows


def model_of(options: argparse.Namespace, setting: Setting, prompts: Iterable[Any]) -> tuple[Any, Any]:
    """Load model and tokenizer. `prompts` are tokenized before the model loads, so that their errors come early."""
    given = setting.sampling["chat_template_kwargs"]
    return load_model(options.model, place_of(options.device), prompts, given)


def ends_of(by_k: dict[str, Any]) -> list[str]:
    """Return the smallest and the largest key k, or one key if they are equal; [] for an empty dict."""
    return [*dict.fromkeys((min(by_k, key=int), max(by_k, key=int)))] if by_k else []


def as_greedy(options: argparse.Namespace, setting: Setting) -> tuple[argparse.Namespace, Setting]:
    """Return options and setting for one answer at temperature 0. --output x.jsonl becomes x.greedy.jsonl."""
    output = options.output
    if output is not None:
        output = output.with_suffix(".greedy.jsonl") if output.suffix == ".jsonl" else None
    sampling = {**setting.sampling, "temperature": 0.0}
    return argparse.Namespace(**{**vars(options), "samples": 1, "output": output}), replace(setting, sampling=sampling)


def collect(options: argparse.Namespace, setting: Setting, selected: ProblemSet, load: Callable[..., Any]) -> Any:
    """Return the AnswerSet: the answers that --output already holds, and sampled ones for the rest. Loads the model
    only if needed."""
    place = place_of(options.device)
    folder = folder_of(options.model)
    loaded = load() if folder is None else None  # a hub id that is not in the cache yet
    folder = folder or folder_of(options.model)
    from ..evaluation.answers import AnswerFile, AnswerSet, answer_batches, batches_of
    from ..evaluation.episodes import answers_at_once
    from ..evaluation.terminal import ProgressLine

    n = int(options.samples or SAMPLES.get(options.eval_preset, 16))  # as many as the preset's paper votes over
    size = texts_at_once(options.batch_size, setting.sampling["max_new_tokens"])
    described = {
        "model": options.model,
        "weights": None if folder is None else weights_digest(folder),
        "role": "prover",
        **({"answers": "moves"} if in_moves(setting.domain) else {}),
        "n": n,
        "seed": options.seed,
        "batch_size": size,
        **setting.sampling,
        "dtype": dtype_on(place, folder),
        "domain": setting.domain.to_dict(),
        **selected.to_dict(setting.domain),
        "device": device_name(place),
        "versions": versions(),
    }
    prompts = [setting.domain.prove_row(problem)["prompt"] for problem in selected.problems]
    batches = batches_of(prompts, n, answers_at_once(setting.domain, size))
    with ExitStack() as stack:
        file = None
        if options.output is not None and options.output.suffix == ".jsonl":
            file = stack.enter_context(AnswerFile(options.output, described, batches))
        done = 0 if file is None else file.batches_done
        rows = [] if file is None else list(file.rows)
        if done:
            print(f"{options.output} holds {len(rows)} of {n * len(prompts)} answers", file=sys.stderr)
        if done < len(batches):
            model, tokenizer = loaded or load()
            sampling = {**setting.sampling, "seed": options.seed, "batch_size": size, "skip": done}
            bar = stack.enter_context(ProgressLine("prover", enabled=not options.disable_tqdm))
            sampling["strata"] = selected.strata
            for batch in answer_batches(model, tokenizer, selected.problems, setting.domain, n, **sampling):
                rows += batch
                if file is not None:
                    file.append(batch)
                bar(len(rows), n * len(prompts))
    return AnswerSet(described, sorted(rows, key=lambda row: (row.index, row.sample)))


def evaluate_as_conjecturer(options: argparse.Namespace, setting: Setting) -> tuple[dict[str, Any], list[Row]]:
    """Return the result as JSON values and the rows of the table: the rates that are defined."""
    prompts = [setting.domain.propose_row(**ask)["prompt"] for ask in asked_of(setting.domain)]
    model, tokenizer = model_of(options, setting, prompts)
    from ..evaluation.roles import evaluate_conjecturer
    from ..evaluation.terminal import ProgressLine

    size = texts_at_once(options.batch_size, setting.sampling["max_new_tokens"])
    with ProgressLine("conjecturer", "proposals", enabled=not options.disable_tqdm) as bar:
        sampling = {**setting.sampling, "seed": options.seed, "batch_size": size, "progress": bar}
        found = evaluate_conjecturer(model, tokenizer, setting.domain, n=options.samples or 1024, **sampling)
    result = found.to_dict()
    return result, [(name.replace("_", " "), *cells(result[name])) for name in rates(result)]


def remarks(options: argparse.Namespace, setting: Setting, result: dict[str, Any]) -> list[str]:
    """Return the notes to print under the table: size, settings, reasons, warnings."""
    size = f"{result['n']} proposals"
    if options.role == "prover":
        size = f"{result['problems']} problems x {result['n']} answers"
    shown = ("temperature", "top_p", "top_k", "max_new_tokens")
    told = {name: value for name, value in setting.sampling.items() if name in shown or value != DEFAULTS[name]}
    sampling = ", ".join(f"{name} {value}" for name, value in told.items())
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
