"""`countdown-selfplay dataset`: write solvable problems or demonstrations to a JSONL or Parquet file; with `--hard_for
MODEL` only problems that the model rarely solves. Only `search`, which finds the latter, loads torch."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from ... import __version__
from ...cli.plain import add_options, add_rule_options, parser_of, positive, rules_of, texts_at_once
from ...countdown import (
    CONJECTURER_PROMPTS,
    PROVER_PROMPTS,
    CountdownDomain,
    Problem,
    ProblemSpec,
    Rules,
    count_solutions,
    features,
    heldout_problems,
    problem_from_row,
)
from ...countdown.generator import iterate_problems
from ...countdown.planted import VALUE_HIGH, planted_problems
from ...countdown.prompts import BARE_PROMPTS, MOVES_PROMPTS
from ...data.jsonl import json_lines, parquet_rows
from ...errors import ConfigError, DataError
from ...evaluation.model import device_name, folder_of, load_model, place_of, versions, weights_digest
from ...evaluation.setting import TRAINING, find_run, setting_of
from ..hard import ATTEMPTS, MOST, AttemptFile, hard_problems
from ..rows import MOVES_SCHEMA, ROW_SCHEMAS, UNSOLVED_SCHEMAS, move_rows

EPILOG = """\
schemas: nums           nums, target
         ground_truth   prompt, target, nums, ground_truth
         prover         prompt, numbers, target
         solved         prompt, completion, numbers, target: demonstrations for the prover
         moves          prompt, completion, numbers, target: the same in moves, a row a move (N episodes)
         proposed       prompt, completion, numbers, target: demonstrations for the conjecturer
         helping        the same for one that helps with a target problem, one in five without it (SGS)
         variant        the same for one that is shown a solved problem and its solution (STP)
         reviewed       the same for the guide of SGS
         ..._steps      of these three (helping_steps): steps towards the target alone, without distractors

examples: countdown-selfplay dataset train.parquet --count 100000 --operands 3 4 --exclude test.jsonl
          countdown-selfplay dataset shown.jsonl --count 4096 --schema moves --operands 2 3 3 --number_high 12
          countdown-selfplay dataset targets.jsonl --count 512 --operands 4 --hard_for Qwen/Qwen2.5-0.5B-Instruct
The rules, ranges, seed and split that the problems come from are written to a second file: out.jsonl.meta, in JSON.
exit codes: 0 written, 2 wrong input; nothing is written then"""


Row = dict[str, Any]

NEEDS = {"+": "needs_add", "-": "needs_sub", "*": "needs_mul", "/": "needs_div"}
"""Operator -> the feature that is 1 if every solution uses the operator."""

ROW_GROUP = 1 << 16
"""Rows per row group of a Parquet file: the most that are in memory at once."""

OWN = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_new_tokens": 1024}
"""Sampling settings for a model that no run of this library trained: those of the recipe qwen2.5-0.5b/sgs."""

PART = 64
"""Problems per part of a search; results are stored after each part, so that an interrupted search continues."""

_NAMES = ("attempts", "most", "temperature", "max_new_tokens", "batch_size", "device")


def write_jsonl(path: Path, rows: Iterator[Row]) -> None:
    """Write one JSON object per line."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_parquet(path: Path, rows: Iterator[Row]) -> None:
    """Write one Parquet table, one row group at a time."""
    import pyarrow
    import pyarrow.parquet

    first = pyarrow.Table.from_pylist(list(islice(rows, ROW_GROUP)))
    with pyarrow.parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        while group := list(islice(rows, ROW_GROUP)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=first.schema))


WRITERS: dict[str, Callable[[Path, Iterator[Row]], None]] = {".jsonl": write_jsonl, ".parquet": write_parquet}


def excluded_keys(files: list[str]) -> set[str]:
    """Return the keys of all problems in JSONL or Parquet files; `heldout-v1` is the frozen held-out set."""
    keys: set[str] = set()
    for name in files:
        if name == "heldout-v1":
            keys |= {problem.key for problem in heldout_problems()}
            continue
        path = Path(name)
        rows = parquet_rows(path) if path.suffix == ".parquet" else (row for _, row in json_lines(path))
        for index, row in enumerate(rows):
            try:
                keys.add(problem_from_row(row, index).key)
            except DataError as error:
                raise DataError(f"'{name}', {error}") from None
    return keys


class Condition:
    """Predicate on problems (excluded keys, number of solutions, operators) that counts the excluded problems."""

    def __init__(self, options: argparse.Namespace, rules: Rules, excluded: set[str]) -> None:
        low, high = options.min_solutions, options.max_solutions
        if low is not None and high is not None and low > high:
            raise ConfigError(f"`--min_solutions` ({low}) must not exceed `--max_solutions` ({high}).")
        self.options, self.rules, self.excluded = options, rules, excluded
        self.overlap = 0

    def __call__(self, problem: Problem) -> bool:
        if problem.key in self.excluded:
            self.overlap += 1
            return False
        low, high = self.options.min_solutions, self.options.max_solutions
        if low is not None or high is not None:
            count = count_solutions(problem, self.rules)
            if (low is not None and count < low) or (high is not None and count > high):
                return False
        found = features(problem, self.rules) if self.options.needs else {}
        return all(found[NEEDS[operator]] for operator in self.options.needs or ())


def options_of(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser, spec = parser_of("dataset", EPILOG), ProblemSpec()
    add = parser.add_argument
    add("out", help="the file to write, .jsonl or .parquet")
    add("--count", type=int, required=True, metavar="N", help="how many problems")
    add("--schema", choices=sorted([*ROW_SCHEMAS, MOVES_SCHEMA]), default="nums", help="columns, see below")
    add_options(parser, seed="the same seed gives the same file (0)")
    add("--split", choices=("train", "heldout"), default="train", help="side of the split (train)")
    often = "operand counts; one given twice comes twice as often (3 4)"
    add("--operands", type=int, nargs="+", default=list(spec.operands), metavar="K", help=often)
    usual = {**vars(spec), "value_high": VALUE_HIGH}
    for name in ("number_low", "number_high", "target_low", "target_high", "value_high"):
        add(f"--{name}", type=int, default=usual[name], metavar="N")
    add("--min_solutions", type=int, metavar="N", help="least number of distinct solutions")
    add("--max_solutions", type=int, metavar="N", help="greatest number of distinct solutions")
    operators = "operators (+ - * /) that every solution must use; a / (b / c) is a * c / b"
    add("--needs", nargs="+", choices=NEEDS, metavar="OP", help=operators)
    left_out = "leave out the problems of these files (heldout-v1: the frozen set)"
    add("--exclude", nargs="+", default=[], metavar="FILE", help=left_out)
    put = "how a problem is put (countdown_3to4, or as in the run of --hard_for)"
    add("--prover_prompt", choices=sorted(PROVER_PROMPTS), help=put)
    add("--conjecturer_prompt", choices=sorted(CONJECTURER_PROMPTS), default="completion")
    add_hard_options(parser)
    add_rule_options(parser, answers=False)
    return parser.parse_args(argv)


def in_moves(options: argparse.Namespace) -> bool:
    """Return whether the file is for answers in moves. Raises ConfigError for options that do not apply to moves."""
    if options.schema != MOVES_SCHEMA and options.prover_prompt not in MOVES_PROMPTS:
        return False
    if options.schema not in {MOVES_SCHEMA, *UNSOLVED_SCHEMAS}:
        raise ConfigError(
            f"`--schema` ({options.schema}) needs the exact solver, and `--prover_prompt` {options.prover_prompt} "
            f"asks for moves; use {', '.join(sorted({MOVES_SCHEMA, *UNSOLVED_SCHEMAS}))}, or another prompt."
        )
    solved = ("min_solutions", "max_solutions", "needs", "hard_for")
    refused = [f"--{name}" for name in solved if vars(options)[name] is not None]
    refused += ["--split heldout"] if options.schema == MOVES_SCHEMA and options.split != "train" else []
    if refused:
        raise ConfigError(f"`{refused[0]}` does not go with problems for moves, which are planted; leave it out.")
    return True


def domain_of(options: argparse.Namespace, moves: bool) -> CountdownDomain:
    """Build the domain (ranges, rules, prompts) from the options."""
    ranges = {n: vars(options)[n] for n in ("number_low", "number_high", "target_low", "target_high")}
    prompt = options.prover_prompt or ("moves" if moves else "countdown_3to4")
    rules = replace(rules_of(options), answer_format="bare") if moves and prompt in BARE_PROMPTS else rules_of(options)
    return CountdownDomain(
        ProblemSpec(operands=tuple(options.operands), **ranges),
        rules,
        prompt,
        options.conjecturer_prompt,
        answers="moves" if moves else "whole",
        value_high=options.value_high,
    )


def check_hard(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that need --hard_for where it is absent, or contradict it, before torch loads."""
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


def attempts_of(options: argparse.Namespace) -> tuple[int, int]:
    """Return the number of attempts at a problem, and the largest number of right attempts at a hard problem."""
    return options.attempts or ATTEMPTS, MOST if options.most is None else options.most


def setting(options: argparse.Namespace, domain: CountdownDomain) -> tuple[CountdownDomain, dict[str, Any]]:
    """Return the domain and the sampling settings of the attempts: those of the model's training if it is `tiny` or
    its run.json is found, else `domain` and OWN; given options override them. Ranges, `use_all` and `integers_only`
    are always those of the options."""
    request = {"model": options.hard_for, "role": "prover", "eval_preset": TRAINING}
    base = setting_of(argparse.Namespace(**request, domain=None, domain_kwargs=None))
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
    options: argparse.Namespace, domain: CountdownDomain, excluded: set[str], file: Path
) -> tuple[CountdownDomain, Any, dict[str, Any]]:
    """Return the domain, the HardProblems, and a description of the search. `file`: attempts of an interrupted search,
    which is continued."""
    from ...evaluation.terminal import ProgressLine

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


def provenance(options: argparse.Namespace, domain: CountdownDomain, written: Counter[int], more: Row) -> Row:
    """Return the settings from which the file can be generated again, as plain JSON values."""
    conditions = ("schema", "seed", "split", "min_solutions", "max_solutions", "needs")
    return {
        "format": "countdown-selfplay-dataset-1",
        "countdown_selfplay": __version__,
        "problems": written.total(),
        "with_operands": {str(k): n for k, n in sorted(written.items())},
        "rules": domain.rules.to_dict(),
        "spec": asdict(domain.spec),
        **{name: vars(options)[name] for name in conditions},
        "excluded_files": [name if name == "heldout-v1" else Path(name).name for name in options.exclude],
        "prover_prompt": domain.prover_prompt,
        "conjecturer_prompt": domain.conjecturer_prompt,
        **({"answers": "moves", "value_high": domain.value_high} if domain.answers == "moves" else {}),
        **more,
    }


def main(argv: list[str]) -> int:
    """Generate the rows, write them, print a summary, and return 0."""
    options = options_of(argv)
    out = Path(options.out)
    if out.suffix not in WRITERS:
        raise ConfigError(f"'{out}' must end in {' or '.join(WRITERS)}.")
    if not out.parent.is_dir():
        raise ConfigError(f"There is no folder '{out.parent}' to write '{out.name}' into.")
    for name in ("count", "target_low", "min_solutions", "max_solutions"):
        value = vars(options)[name]
        if value is not None and value < 1:
            why = ": training commands play positive targets alone" if name == "target_low" else ""
            raise ConfigError(f"`--{name}` ({value}) must be at least 1{why}.")
    check_hard(options)
    moves = in_moves(options)
    domain = domain_of(options, moves)
    rules, spec = domain.rules, domain.spec
    condition = Condition(options, rules, excluded_keys(options.exclude))
    problems: Iterable[Problem] = ()
    if moves and options.schema != MOVES_SCHEMA:
        problems = planted_problems(
            options.count, spec, options.seed, condition.excluded, options.split, options.value_high
        )
    elif not moves:
        problems = iterate_problems(options.count, spec, options.seed, (), options.split, rules, condition)
    attempts, told, more = out.with_name(f".{out.name}.attempts"), "", {}
    if options.hard_for is not None:
        domain, found, chosen = search(options, domain, condition.excluded, attempts)
        problems, told, more = iter(found.problems), found.told(), {"hard_for": chosen | found.rates()}
    written: Counter[int] = Counter()

    def rows() -> Iterator[Row]:
        if options.schema == MOVES_SCHEMA:
            for size, row in move_rows(options.count, domain, options.seed, condition.excluded):
                written[size] += len(row["numbers"]) == size  # its first move
                yield row
            return
        row_of = ROW_SCHEMAS[options.schema]
        for problem in problems:
            written[len(problem.numbers)] += 1
            yield row_of(problem, domain)

    unfinished, meta = out.with_name(f".{out.name}.unfinished"), out.with_name(f"{out.name}.meta")
    try:
        WRITERS[out.suffix](unfinished, rows())
        text = json.dumps(provenance(options, domain, written, more), indent=2)
        meta.unlink(missing_ok=True)  # at no time does it speak of another file
        unfinished.replace(out)
        meta.write_text(text + "\n", encoding="utf-8")
        attempts.unlink(missing_ok=True)
    except OSError as error:  # a full disk, one that is read-only, a name that is too long
        raise ConfigError(f"'{out}' cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    mix = ", ".join(f"{n} with {k} numbers" for k, n in sorted(written.items()))
    print(f"{out}: {written.total()} problems ({mix}), split {options.split}, seed {options.seed}")
    if told:
        print(f"{told}.")
        if not found.solved:
            print("Nothing was solved: no solver learns from that; warm-start the model, or take easier problems.")
    if options.exclude and not told and not moves:
        print(f"left out: {condition.overlap} that overlap with the {len(condition.excluded)} excluded problems")
    return 0
