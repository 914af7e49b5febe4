"""`countdown-selfplay solve-rates`: measure how often a trained prover solves new problems, the training data of a
difficulty predictor (Task Difficulty and Diversity, section 4)."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ...cli.plain import add_options, file_name, parser_of, positive, texts_at_once
from ...countdown import CountdownDomain
from ...errors import ConfigError, DataError

EPILOG = """\
example: countdown-selfplay rloo --max_steps 100 --output_dir runs/tiny-rloo
         countdown-selfplay solve-rates runs/tiny-rloo          # writes runs/tiny-rloo/solve_rates.jsonl
         countdown-selfplay symbolic --recipe tiny/symbolic_p_solver

A line a problem: numbers, target, correct, attempts; the recipe's `difficulty_kwargs: {labels: ...}` names the file.
The problems are random ones of the run's own ranges, on the training side of the split, that the run itself did not
generate to train on (of a data set's problems nothing is known: name it by --apart_from). They are sampled as the run
samples in training; features are computed where the file is read, by the rules of the run that reads it.
exit codes: 0 written, 2 wrong input; nothing is written then"""


def collect(
    policy: tuple[Any, Any], domain: Any, problems: Sequence[Any], samples: int, out: Path, seed: int, **sampling: Any
) -> float:
    """Write the solve rates of a policy (model and tokenizer) to `out` and return their mean."""
    from ...data.run_files import write_atomically
    from ...evaluation.answers import answer_batches

    correct: Counter[int] = Counter()
    for batch in answer_batches(*policy, problems, domain, samples, seed=seed, **sampling):
        for answer in batch:
            correct[answer.index] += answer.correct
    lines = [
        {"numbers": list(p.numbers), "target": p.target, "correct": correct[i], "attempts": samples}
        for i, p in enumerate(problems)
    ]
    write_atomically(out, "".join(json.dumps(line) + "\n" for line in lines))
    return correct.total() / (len(problems) * samples)


def new_problems(domain: Any, count: int, seed: int, known: Iterable[str]) -> list[Any]:
    """Draw `count` random problems whose keys are not in `known`. The seed differs from that of every run: with
    the seed of a run the generator would repeat the problems on which the run trained."""
    from ...random_state import seed_from

    return list(domain.random(count, seed_from("solve rates", seed), frozenset(known)))


def main(argv: list[str]) -> int:
    """Sample the answers, write the solve rates, print their mean, and return 0."""
    parser = parser_of("solve-rates", EPILOG)
    parser.add_argument("model", metavar="RUN", help="a run folder with a prover in it, a model's folder, or tiny")
    parser.add_argument("--problems", type=positive, default=2000, metavar="N", help="problems that are asked (2000)")
    parser.add_argument("--samples", type=positive, default=8, metavar="K", help="answers to each (8, the paper's)")
    parser.add_argument("--number_high", type=positive, metavar="N", help="greatest number, if not the run's own")
    parser.add_argument("--apart_from", metavar="DATA", help="problems that are not asked: a file, a hub id")
    parser.add_argument("--out", type=file_name, metavar="FILE", help="(solve_rates.jsonl in the run folder)")
    add_options(parser, "device", "batch_size", seed="of the problems and of the answers (0)")
    options = parser.parse_args(argv)

    from ...data.anchors import GENERATED_ANCHORS
    from ...data.files import load_problem_rows
    from ...data.jsonl import json_file
    from ...evaluation.model import load_model, place_of
    from ...evaluation.setting import TRAINING, find_run, roles_of, setting_of

    run = Path(options.model)
    name = str(run / "prover") if (run / "prover").is_dir() else options.model
    described = find_run(name)
    if (described is None and name != "tiny") or roles_of(name) == ["conjecturer"]:
        raise DataError(
            f"'{options.model}' is not a run folder with a prover in it; pass a run's output_dir, or tiny."
        )
    out = options.out or (run if run.is_dir() else Path()) / "solve_rates.jsonl"
    if not out.parent.is_dir():
        raise ConfigError(f"There is no folder '{out.parent}' to write '{out.name}' into; make it, or pass another.")
    request = Namespace(model=name, role="prover", domain=None, domain_kwargs=None, eval_preset=TRAINING)
    setting, known = setting_of(request), set()
    domain = setting.domain
    if not isinstance(domain, CountdownDomain) or domain.answers == "moves":
        raise ConfigError(
            f"'{options.model}' was not trained on whole answers to Countdown problems, the only ones that a "
            "difficulty predictor reads; pass such a run."
        )
    trained_with = {} if described is None else json_file(described, config=dict)["config"]
    if trained_with and trained_with.get("dataset_name") is None:
        known = {domain.key(p) for p in domain.random(GENERATED_ANCHORS, trained_with["seed"], frozenset())}
    if options.apart_from:
        known |= {domain.key(domain.problem(row, i)) for i, row in enumerate(load_problem_rows(options.apart_from))}
    request.number_high = options.number_high  # of the new problems, not of those that the run generated
    problems = new_problems(setting_of(request).domain, options.problems, options.seed, known)
    sampling = setting.sampling | {"batch_size": texts_at_once(options.batch_size, setting.sampling["max_new_tokens"])}
    policy = load_model(name, place_of(options.device))
    mean = collect(policy, domain, problems, options.samples, out, options.seed, **sampling)
    print(f"{len(problems)} problems x {options.samples} answers, mean solve rate {mean:.3f} -> {out}")
    return 0
