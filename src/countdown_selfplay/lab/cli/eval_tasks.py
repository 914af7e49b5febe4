"""`countdown-selfplay eval --task ...`: error detection, self-correction and win rates (Wang et al.)."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...cli.plain import file_name
from ...domains import example_prompts, is_held_out
from ...errors import ConfigError, DataError
from ...evaluation.model import device_name, folder_of, load_model, place_of, versions, weights_digest
from ...evaluation.setting import Setting, problem_set
from ...evaluation.terminal import ProgressLine, aligned, cells
from ...packages import need
from ..critics import Policy, model_policy
from ..critics import error_detection as detection
from ..critics.self_correction import self_correction
from ..critics.win_rates import RATES, matrix_of, win_rates

PROBLEMS = 1024  # of --training_data
Result = dict[str, Any]


def add_task_options(parser: argparse.ArgumentParser, positive: Callable[[str], int]) -> None:
    add = parser.add_argument_group("tasks of the Critic-Discernment Game (docs/critic_game.md)").add_argument
    file: dict[str, Any] = {"type": file_name, "metavar": "FILE"}
    steps_help = "the solutions whose steps are asked about; made by this model if the file is not there"
    add("--step_set", help=f"error_detection: {steps_help}", **file)
    add("--items", type=positive, help=f"error_detection: wrong steps, and right ones ({detection.COUNT})")
    data = "write data for sft instead, from problems of the training side"
    add("--training_data", help=f"self_correction: {data}", **file)
    add("--add", help="self_correction: a prover.parquet whose rows join --training_data", **file)
    add("--each", type=positive, help="self_correction: most rows of each kind in --training_data (5000)")
    runs = "run folders, or name=FOLDER with a folder of role folders (default: --model, a run folder)"
    add("--iterations", nargs="+", metavar="RUN", help=f"win_rates: {runs}")
    both, answers = ("HELPFUL", "MISLEADING"), "win_rates: critiques of an answer (8 4)"
    add("--critiques", type=positive, nargs=2, metavar=both, help=answers)
    add("--revisions", type=positive, help="win_rates: answers to a critique (4)")


def check_task(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that the task does not read, and for missing ones."""
    readers = {
        "error_detection": ("step_set", "items"),
        "self_correction": ("training_data", "add", "each"),
        "win_rates": ("iterations", "critiques", "revisions"),
        "solve": ("greedy",),
    }
    for task, names in readers.items():
        for name in names:
            if vars(options)[name] and options.task != task:
                raise ConfigError(f"`--{name}` belongs to `--task {task}`, and the task is '{options.task}'.")
    if options.task == "solve":
        return
    if options.role != "prover":
        raise ConfigError(f"`--task {options.task}` scores a prover; leave --role out.")
    if options.output is not None and options.output.suffix != ".json":
        raise ConfigError(f"`--output` ({options.output}) must end in .json for --task {options.task}.")
    if (options.add or options.each) and not options.training_data:
        raise ConfigError("`--add` and `--each` say what --training_data holds; pass --training_data FILE too.")
    if options.training_data and options.training_data.suffix != ".jsonl":
        raise ConfigError(f"`--training_data` ({options.training_data}) must end in .jsonl.")


def run_task(options: argparse.Namespace, setting: Setting) -> Result:
    """Run the task and print its table; return the results as JSON values."""
    domain = setting.domain
    if domain.critique is None or domain.critique.recheck_row is None:
        raise ConfigError(
            f"`--task {options.task}` needs a domain whose answers can be judged in steps, criticised and revised "
            "(`critique`; contract/domain.py), such as countdown and math_qa."
        )
    started = time.perf_counter()
    task = {"error_detection": _detection, "self_correction": _correction, "win_rates": _meetings}[options.task]
    with ProgressLine(options.task, "texts of a turn", enabled=not options.disable_tqdm) as bar:
        result, table = task(options, setting, bar)
    print(table)
    return {**result, "seconds": round(time.perf_counter() - started, 3)}


def _detection(options: argparse.Namespace, setting: Setting, bar: ProgressLine) -> tuple[Result, str]:
    """Read or make the step set; then the model judges it."""
    domain, path, count = setting.domain, options.step_set, options.items or detection.COUNT
    exact = domain.critique.first_wrong is not None
    if path is None and not exact:
        raise ConfigError(
            "`--step_set` is not set, and only Countdown's steps are labelled by the solver; pass a file name for "
            "this model's solutions, to which an annotator adds `first_wrong`."
        )
    made: Result = {}
    if path is not None and path.is_file():
        items = detection.drawn_items(detection.read_solutions(path, domain), count, options.seed)
        policy, described = _policy(options, setting, bar, [one.problem for one in items[:1]])
    else:
        chosen, n = problem_set(options, domain), options.samples or detection.SAMPLES
        policy, described = _policy(options, setting, bar, chosen.problems)
        solutions = detection.eligible_solutions(policy, domain, chosen.problems, n, options.seed)
        made = {**chosen.to_dict(domain), "samples": n}
        right = sum(one.right for one in solutions)
        if exact:  # before the file is written, because the next call would read it
            items = detection.drawn_items(solutions, count, options.seed)
        elif right in (0, len(solutions)):
            raise DataError(
                f"`--step_set` needs right and wrong solutions of problems that a majority of {n} solutions solves, "
                f"and has {right} right and {len(solutions) - right} wrong ones; nothing was written. Take more or "
                "easier problems, or a model that solves them."
            )
        if path is not None:
            detection.write_solutions(path, solutions, domain)
            print(f"Wrote {path}: {len(solutions)} solutions, {len(solutions) - right} of them wrong")
        if not exact:
            return {"setting": described | made, "solutions": len(solutions)}, (
                "Put the number of the first wrong step, from 1, into `first_wrong` of each wrong solution, and give "
                "the same command again."
            )
    result = detection.error_detection(policy, domain, items, options.seed)
    names = {"f1": "F1, wrong steps", "f1_right": "F1, right steps", "accuracy": "accuracy"}
    message = (
        f"{result['wrong']} wrong and {result['items'] - result['wrong']} right steps of {len(set(result['keys']))} "
        f"problems; unreadable judgements: {result['unreadable']}; greedy"
    )
    return {**result, "setting": described | made}, _table(options.task, names, result) + f"\n{message}"


def _correction(options: argparse.Namespace, setting: Setting, bar: ProgressLine) -> tuple[Result, str]:
    """Run the test, or write the data of the supervised stage."""
    if options.training_data is not None:
        return write_training_data(options, setting, lambda problems: _policy(options, setting, bar, problems)[0])
    chosen, n = problem_set(options, setting.domain), options.samples or 1
    policy, described = _policy(options, setting, bar, chosen.problems)
    result = self_correction(policy, setting.domain, chosen.problems, n, options.seed)
    names = {"before": "accuracy before", "after": "accuracy after"}
    names |= {"right_to_wrong": "right -> wrong", "wrong_to_right": "wrong -> right", "change": "change"}
    shown = {**result, "change": {"value": result["change"]["difference"], **result["change"]}}
    message = f"{len(chosen.problems)} problems x {n} answers, checked greedily; {result['counts']}"
    described |= {**chosen.to_dict(setting.domain), "n": n}
    return {**result, "setting": described}, _table(options.task, names, shown) + f"\n{message}"


def write_training_data(
    options: argparse.Namespace, setting: Setting, policy_of: Callable[[Sequence[Any]], Policy]
) -> tuple[Result, str]:
    """Write rows for `sft --keep_wrong true`, and with --add a prover's training rows: Wang et al. 2025, appendix C.3,
    fine-tunes the initial model on both together. policy_of: problems -> the model as a policy. Returns (counts, a
    sentence for the user)."""
    need("warm_starts.filters", "`--training_data`")
    from ..critics.self_correction import EACH, SAMPLES, self_correction_rows

    domain, path = setting.domain, options.training_data
    problems = training_problems(options, domain)
    added = [] if options.add is None else added_rows(options.add, domain, problems)
    rows, counts = self_correction_rows(
        policy_of(problems), domain, problems, options.samples or SAMPLES, options.each or EACH, options.seed
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*rows, *added]), encoding="utf-8")
    message = (
        f"Wrote {path}: {len(rows)} rows, half kept and half corrected (of {counts['kept']} and "
        f"{counts['corrected']}), and {len(added)} added; train by `sft --dataset_name {path} --keep_wrong true`"
    )
    return {"counts": counts, "rows": len(rows), "added": len(added), "problems": len(problems)}, message


def training_problems(options: argparse.Namespace, domain: Any) -> list[Any]:
    """Return the problems of --problems that are not held out, or --n_problems of the training side."""
    if options.problems is not None:
        from ...data.files import load_problem_rows

        read = [domain.problem(row, i) for i, row in enumerate(load_problem_rows(options.problems, options.split))]
        kept = [problem for problem in read if not is_held_out(domain, problem)]
        if not kept:
            raise DataError(f"'{options.problems}' has no problem of the training side.")
        return kept[: options.n_problems]
    if domain.random is None:
        raise ConfigError("The domain does not generate problems; pass those of its training set as --problems.")
    return list(domain.random(options.n_problems or PROBLEMS, options.seed, frozenset()))


def added_rows(path: Path, domain: Any, problems: list[Any]) -> list[dict[str, Any]]:
    """Return the prover's data set of an iterated run, with the columns of each row's problem. Raises DataError for
    another role's, or one of pairs, whose better texts may be single steps."""
    from ...warm_starts.iterated import select

    known = {domain.key(problem): problem for problem in problems}
    by_key = None if domain.mutations is None else domain.mutations.problem_of_key
    added = []
    rows = select.read(path, cure="pass an iteration's prover.parquet")
    if any("rejected" in row or row.get("role") != "prover" for row in rows):
        raise DataError(
            f"`--add` ({path}) holds pairs or another role's samples; pass `prover.parquet` of a run with algorithm "
            "rest or expert_iteration."
        )
    for row in rows:
        problem = known.get(row["problem"]) or (by_key(row["problem"]) if by_key is not None else None)
        if problem is None:
            raise DataError(
                f"'{path}' holds the problem '{row['problem'][:60]}', which --problems does not; pass the file that "
                "its run played."
            )
        rendered = {**domain.prove_row(problem), "prompt": select.prompt_of(row)}
        added.append(rendered | {"completion": row["completion"], "label": row["label"]})
    return added


def _meetings(options: argparse.Namespace, setting: Setting, bar: ProgressLine) -> tuple[Result, str]:
    from ...games import GAMES
    from ..critics.win_rates import Meetings, named_iterations

    iterations = named_iterations(options.iterations or [options.model])
    problems, place = problem_set(options, setting.domain), place_of(options.device)
    generations, revisions = (options.samples or 4, *(options.critiques or (8, 4))), options.revisions or 4
    counts = dict(zip(("prover", "helpful", "misleading"), generations, strict=True))
    game = GAMES.make("critic_discernment", {"revisions": revisions, "samples_per_log": 0})
    names = [one.name for one in iterations]
    # Each role uses the domain's stop strings.
    sampling = {name: value for name, value in setting.sampling.items() if name != "stop_strings"}
    sampling["batch_size"] = options.batch_size or 256
    prompts, given = prompts_of(setting, problems.problems), sampling["chat_template_kwargs"]
    load = partial(load_model, place=place, prompts=prompts, chat_template_kwargs=given)
    meetings = Meetings(iterations, setting.domain, load, {**sampling, "progress": bar}, counts, options.seed)
    result = win_rates(names, names, meetings, game, problems.problems, options.seed)
    tables = []
    for rate in RATES:
        rows = [(f"{rate}: prover", *(f"critics {name}" for name in names))]
        for name, values in zip(names, matrix_of(result, rate), strict=True):
            rows.append((name, *("-" if value is None else f"{value:.1%}" for value in values)))
        tables.append(aligned(rows))
    described = {
        "iterations": {one.name: dict(one.models) for one in iterations}, "counts": counts,
        "revisions": revisions, **_sampled(options, setting, place), **problems.to_dict(setting.domain),
    }  # fmt: skip
    return {**result, "setting": described}, "\n\n".join(tables)


def prompts_of(setting: Setting, problems: Sequence[Any]) -> list[Any]:
    return example_prompts(setting.domain, {"prover": setting.domain.prove_row(problems[0])}, dialogues=True)


def _policy(
    options: argparse.Namespace, setting: Setting, bar: ProgressLine, problems: Sequence[Any]
) -> tuple[Policy, Result]:
    """Return the model as a policy, its identity and its sampling settings."""
    prompts = prompts_of(setting, problems) if problems else []
    place, folder = place_of(options.device), folder_of(options.model)
    model, tokenizer = load_model(options.model, place, prompts, setting.sampling["chat_template_kwargs"])
    described = {"weights": folder and weights_digest(folder), **_sampled(options, setting, place)}
    sampling = {**setting.sampling, "batch_size": options.batch_size or 256, "progress": bar}
    return model_policy(model, tokenizer, setting.domain, **sampling), described


def _sampled(options: argparse.Namespace, setting: Setting, place: str) -> Result:
    return {
        **setting.sampling, "batch_size": options.batch_size or 256, "seed": options.seed,
        "domain": setting.domain.to_dict(), "device": device_name(place), "versions": versions(),
    }  # fmt: skip


def _table(title: str, names: dict[str, str], result: Result) -> str:
    rows = [(words, *cells(result[name])) for name, words in names.items()]
    return aligned([(title.replace("_", " "), "estimate", "95% interval"), *rows])
