"""`countdown-selfplay ipo`: IPO on pairs of scored samples (right over wrong), evaluate before and after."""

import sys
from typing import Any

from ...cli.options import parse_options
from ...config.settled import check_run
from ...data.files import held_out_problems, load_problem_rows
from ..configs import IPOArguments, IPOSettings
from ..filters import Kept, PreferencePair, ScoredSample, make_preference_pairs
from ..planning import print_plan
from ..readers import PREFERENCES, problems_to_sample, read_preferences, read_samples, scored_samples
from ..training import run


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """Run `countdown-selfplay ipo`; return 0. `launch`: options of a launch for which a dry run plans."""
    script, args, model = parse_options("ipo", sys.argv[1:] if argv is None else argv)
    if not script.dry_run:
        check_run(args)
    held_out = held_out_problems(script, script.played)
    evaluated = {script.played.key(problem) for problem in held_out}
    if script.dry_run:
        print_plan(script, args, model, *_planned(script, args, evaluated), launch)
        return 0

    def data(weights: Any, tokenizer: Any) -> tuple[Kept[PreferencePair], str, str]:
        given = given_pairs(script, evaluated)
        if given is not None:
            return given, "preferences", f"from {script.dataset_name}"
        samples = scored_samples(script, args, weights, tokenizer, evaluated)
        pairs = pairs_of(samples, script, args.seed).insist("samples (no group has both a better and a worse one)")
        source = "of the model itself" if script.samples_file is None else f"from {script.samples_file}"
        return pairs, "samples", source

    run("ipo", script, args, model, held_out, data)
    return 0


def given_pairs(script: IPOArguments, evaluated: set[str]) -> Kept[PreferencePair] | None:
    """Return the pairs of a data set of preferences; None if `dataset_name` has none. Raises DataError if
    nothing is left."""
    if script.dataset_name is None or script.samples_file is not None:
        return None
    rows = load_problem_rows(script.dataset_name, script.dataset_train_split)
    if not set(PREFERENCES) & set(rows.column_names):
        return None
    return read_preferences(rows, script.played, evaluated, script.dataset_name).insist("preferences")


def pairs_of(samples: Kept[ScoredSample], script: IPOArguments, seed: int) -> Kept[PreferencePair]:
    """Return pairs that prefer a right to a wrong answer to the same problem."""
    pairs = make_preference_pairs(samples.rows, pairs_per_group=script.pairs_per_group, seed=seed)
    return Kept(pairs, samples.read, samples.left_out)


def _planned(script: IPOArguments, args: IPOSettings, evaluated: set[str]) -> tuple[str, int]:
    given = given_pairs(script, evaluated)
    if given is not None:
        return f"{len(given.rows)} pairs of {given.read} preferences ({given.reasons})", len(given.rows)
    if script.samples_file is not None:
        samples = read_samples(script.samples_file, script.played, evaluated)
        pairs = pairs_of(samples, script, args.seed).rows
        return f"{samples.read} samples ({samples.reasons}) give {len(pairs)} pairs", len(pairs)
    n = len(problems_to_sample(script, args.seed, evaluated).rows)
    most = n * min(script.samples_per_problem // 2, script.pairs_per_group or script.samples_per_problem)
    return f"{n} problems x {script.samples_per_problem} answers, at most {most} pairs", most
