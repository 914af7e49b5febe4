"""`countdown-selfplay ipo`: IPO on pairs of scored samples (right over wrong), evaluate before and after."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from trl import ModelConfig

from ..config.checks import check_run
from ..data.files import held_out_problems
from ..domains import is_held_out
from ..errors import ConfigError
from ..tiny import resolve_model
from ..warm_starts.configs import IPOArguments, IPOSettings
from ..warm_starts.demonstrations import read_demonstrations
from ..warm_starts.filters import HELD_OUT, TOO_LONG, Kept
from ..warm_starts.pairs import PreferencePair, ScoredSample, make_preference_pairs
from ..warm_starts.preferences import PREFERENCES, read_preferences
from .options import parse_options
from .warm_start_dry_run import print_dry_run

Samples = tuple[list[ScoredSample], int, "Counter[str]"]


def main(argv: list[str] | None = None) -> int:
    script, args, model = parse_options("ipo", sys.argv[1:] if argv is None else argv)
    if not script.dry_run:
        check_run(args)
    held_out = held_out_problems(script, script.played)
    evaluated = {script.played.key(problem) for problem in held_out}
    if script.dry_run:
        print_dry_run(script, args, model, *_planned(script, args, evaluated))
        return 0
    run_ipo(script, args, model, held_out)
    return 0


def problems_to_sample(script: IPOArguments, seed: int, evaluated: set[str]) -> Kept:
    """Rows {"problem": ...} to draw answers on, without held-out problems; DataError if nothing is left."""
    if script.dataset_name is None:
        made = script.played.random(script.problems, seed, frozenset(evaluated))
        return Kept([{"problem": problem} for problem in made], len(made))
    kept: list[dict[str, Any]] = []
    left_out: Counter[str] = Counter()
    read = 0
    for i, row in enumerate(read_demonstrations(script.dataset_name, script.dataset_train_split)):
        if len(kept) == script.problems:
            break
        read += 1
        problem = script.played.problem(row, i)
        if is_held_out(script.played, problem, evaluated):
            left_out[HELD_OUT] += 1
        else:
            kept.append({"problem": problem})
    return Kept(kept, read, left_out).insist("problems")


def given_pairs(script: IPOArguments, evaluated: set[str]) -> tuple[list[PreferencePair], int, Counter[str]] | None:
    """The pairs of a data set of preferences; None if `dataset_name` has none. DataError if nothing is left."""
    if script.dataset_name is None or script.samples_file is not None:
        return None
    rows = read_demonstrations(script.dataset_name, script.dataset_train_split)
    if not rows or not set(PREFERENCES) & set(rows[0]):
        return None
    if script.role == "conjecturer":
        raise ConfigError(
            f"`dataset_name` ({script.dataset_name}) holds preferences between answers, and `role` is conjecturer; "
            "set role=prover."
        )
    found, read, left_out = read_preferences(rows, script.played, evaluated, script.dataset_name)
    Kept(found, read, left_out).insist("preferences")  # type: ignore[arg-type]
    return found, read, left_out


def _planned(script: IPOArguments, args: IPOSettings, evaluated: set[str]) -> tuple[list[str], int | None]:
    given = given_pairs(script, evaluated)
    if given is not None:
        return [f"{len(given[0])} pairs of {given[1]} preferences ({_reasons(given[2])})"], len(given[0])
    if script.samples_file is not None:
        from ..warm_starts.samples import read_samples

        samples, read, left_out = read_samples(script.samples_file, script.role, script.played, evaluated)
        pairs = pairs_of(samples, script, args.seed)
        return [f"{read} samples ({_reasons(left_out)}) give {len(pairs)} pairs"], len(pairs)
    if script.role == "conjecturer":
        return [f"{script.proposals} proposals, at most {script.proposals // 2} pairs"], script.proposals // 2
    n = len(problems_to_sample(script, args.seed, evaluated).rows)
    most = n * min(script.samples_per_problem // 2, script.pairs_per_group or script.samples_per_problem)
    return [f"{n} problems x {script.samples_per_problem} answers, at most {most} pairs"], most


def pairs_of(samples: Sequence[ScoredSample], script: IPOArguments, seed: int) -> list[Any]:
    """Prover: a right over a wrong answer to the same problem. Conjecturer: a proposal with reward above 0 over one
    with less, asked for in the same words."""
    if script.role == "prover":
        return make_preference_pairs(samples, pairs_per_group=script.pairs_per_group, seed=seed)
    smallest = sys.float_info.min  # any reward above 0
    return make_preference_pairs(samples, chosen_at_least=smallest, pairs_per_group=None, seed=seed)


def run_ipo(script: IPOArguments, args: IPOSettings, options: ModelConfig, held_out: list[Any]) -> None:
    """Make the pairs, train and leave a model folder in `args.output_dir`."""
    from datasets import Dataset

    from ..evaluation.token_ids import pair_ids
    from ..warm_starts.run import load, longest, run
    from ..warm_starts.trainers import TokenizedDPOTrainer

    evaluated = {script.played.key(problem) for problem in held_out}
    model, tokenizer, peft_config = load(args, options)
    given = given_pairs(script, evaluated)
    if given is None:
        samples, read, left_out = scored_samples(script, args, options, model, tokenizer, evaluated)
        pairs = pairs_of(samples, script, args.seed)
    else:
        pairs, read, left_out = given
    limit = longest(args, model)
    rows = [pair_ids(tokenizer, pair.prompt, pair.chosen, pair.rejected) for pair in pairs]
    fitting = [row for row in rows if limit is None or _length(row) <= limit]
    cut = Counter({TOO_LONG: len(rows) - len(fitting)} if len(rows) > len(fitting) else {})
    Kept(fitting, read, left_out + cut).insist("samples (no group has both a better and a worse one)")
    chat = not isinstance(pairs[0].prompt, str)
    trainer = TokenizedDPOTrainer(
        model=model,
        # With an adapter TRL takes the base as reference; else a copy of these weights, not a reload of their path.
        ref_model=None if peft_config is not None else copy.deepcopy(model),
        args=args,
        train_dataset=Dataset.from_list(fitting),
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    file = script.samples_file or (script.dataset_name if given else None)
    source = "of the model itself" if file is None else f"from {file}"
    what = "preferences" if given else "samples"
    data = [f"{len(fitting)} pairs of {read} {what} {source}; {what} left out: {_reasons(left_out + cut)}"]
    trainer.accelerator.print(data[0])
    path = resolve_model(options.model_name_or_path)
    run(script, args, trainer, tokenizer, held_out, path, "ipo", data, chat)


def scored_samples(
    script: IPOArguments, args: IPOSettings, options: ModelConfig, model: Any, tokenizer: Any, evaluated: set[str]
) -> Samples:
    """The samples of the file, or drawn from the model: answers are shared out over the processes, proposals (whose
    solve rates must agree for equal ones) are drawn by the first."""
    from accelerate.utils import broadcast_object_list, gather_object

    from ..warm_starts import samples as source

    if script.samples_file is not None:
        return source.read_samples(script.samples_file, script.role, script.played, evaluated)
    size = max(args.per_device_eval_batch_size, script.samples_per_problem)
    sampling = {**script.sampling, "batch_size": size}
    rank, processes = args.process_index, args.world_size
    if script.role == "conjecturer":
        found: list[Any] = [None]
        if rank == 0:
            prover = model if script.prover_model_name_or_path is None else _prover(script, options, model)
            found[0] = source.sample_proposals(
                model,
                tokenizer,
                prover,
                script.played,
                script.proposals,
                script.conjecturer_reward,
                source.seed_from("ipo", args.seed),
                evaluated,
                **sampling,
            )
        if processes > 1:
            broadcast_object_list(found)
        return found[0]
    problems = [row["problem"] for row in problems_to_sample(script, args.seed, evaluated).rows]
    seed = source.seed_from("ipo", args.seed, rank)
    own = problems[rank::processes]
    part = source.sample_answers(
        model, tokenizer, own, script.played, script.samples_per_problem, seed=seed, **sampling
    )
    parts = gather_object([part]) if processes > 1 else [part]
    samples = [sample for found_here, _, _ in parts for sample in found_here]
    return samples, sum(n for _, n, _ in parts), sum((reasons for _, _, reasons in parts), Counter())


def _prover(script: IPOArguments, options: ModelConfig, model: Any) -> Any:
    from ..policies.build import load_pretrained

    kwargs = {"dtype": options.dtype, "attn_implementation": options.attn_implementation}
    return load_pretrained(resolve_model(script.prover_model_name_or_path), kwargs, "merge").to(model.device)


def _length(row: dict[str, list[int]]) -> int:
    return len(row["prompt_ids"]) + max(len(row["chosen_ids"]), len(row["rejected_ids"]))


def _reasons(left_out: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items())) or "none"
