"""`countdown-selfplay cdg`: the Critic-Discernment Game, trained online, or in iterations from the initial model."""

import json
import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from trl import ModelConfig

from ...cli.launch import planned
from ...cli.options import parse_options
from ...config.fields import CountdownFields
from ...config.script import EvaluationArguments, check_starts
from ...config.settled import check_output
from ...contract.metric import as_json, for_players
from ...data.files import checked_problems, held_out_problems, load_problem_rows
from ...distributed.processes import ALONE, Processes
from ...domains import domain_from, is_held_out
from ...errors import ConfigError
from ...evaluation.model import place_of
from ...evaluation.setting import preset
from ...games import GAMES
from ...options import at_least, json_object, option
from ...planning.dry_run import print_warm_start
from ...planning.memory import Launch
from ...tiny import resolve_model
from ...training.callbacks.run_folder import write_description
from ...training.run import quiet_loading, tell
from ...training.run_lock import run_lock
from ..iterated.driver import IteratedSelfPlay, tokenizer_of
from ..iterated.settings import IteratedSettings, check_settings, plan, with_budget
from ..planning import iterated_lines
from ..training import load_whole, measure_prover


@dataclass
class IteratedArguments(EvaluationArguments, CountdownFields):
    """Options of the command around IteratedSelfPlay."""

    recipe: str | None = option(None, "A named setting, such as tiny/iterated_cdg.")
    training: Literal["iterated", "online"] = option(
        "iterated", "iterated: the paper's way. online: rounds of the joint trainer."
    )
    game_kwargs: dict | str | None = option(None, "Arguments of the game as JSON, such as '{\"revisions\": 4}'.")
    dataset_name: str | None = option(None, "Problems to play: a hub id or a file. None: made by the exact generator.")
    dataset_train_split: str = option("train", "Split of dataset_name.")
    problems: int = option(1024, "Problems that are played in an iteration, at most.")
    eval_samples: int = option(8, "Answers per held-out problem, the n of pass@k.")
    budget_of: str | None = option(
        None,
        "The folder of a finished iterated run: each role takes as many optimizer steps in each iteration "
        "as there, whatever its data.",
    )
    dry_run: bool = option(False, "Print the resolved settings, the most samples and the steps, and exit.")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "problems", "eval_samples")


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """Run `cdg --training iterated`; return 0. `launch`: options of a launch for which a dry run plans."""
    script, settings, model = parse_options("cdg", sys.argv[1:] if argv is None else argv)
    if script.training != "iterated":
        raise ConfigError(
            f"`training` ({script.training}) in a file cannot be, for the two ways have other settings; pass it as a "
            f"flag: `countdown-selfplay cdg --training {script.training} --config FILE`, and leave it out of the file."
        )
    for name in ("use_peft", "dtype", "attn_implementation", "model_revision"):
        if getattr(model, name) != getattr(ModelConfig(), name):
            raise ConfigError(
                f"`{name}` ({getattr(model, name)}) is not read by `cdg --training iterated`, which retrains all "
                "weights of the model in float32; leave it unset, or train online."
            )
    check_output(settings.output_dir)
    domain, game = domain_from(script), game_of(script)
    check_settings(settings, game, domain)
    if script.budget_of is not None:
        settings.kinds = with_budget(settings.kinds, Path(script.budget_of), settings.iterations)
    if script.dry_run:
        device = "cpu" if settings.use_cpu else place_of(None)
        here = Launch(device=device, bf16=settings.bf16 is not False and device != "cpu")
        where = here if launch is None else planned(launch)
        memory = iterated_lines(settings, domain, model, where)
        print_warm_start(script, settings, model, chain(plan(settings, game, script.problems), memory))
    check_starts(model.model_name_or_path, script.dataset_name)
    if not script.dry_run:
        play(script, settings, model, game, domain)
    return 0


def game_of(script: IteratedArguments) -> Any:
    return GAMES.make("critic_discernment", json_object("game_kwargs", script.game_kwargs, '{"revisions": 4}'))


def play(script: IteratedArguments, settings: IteratedSettings, model: Any, game: Any, domain: Any) -> None:
    """Run the iterations; evaluate the prover before and after them; print and write the results."""
    quiet_loading()
    held_out = held_out_problems(script, domain)
    evaluated = {domain.key(problem) for problem in held_out}
    problems = [p for p in problems_of(script, settings, domain, evaluated) if not is_held_out(domain, p, evaluated)]
    start = resolve_model(model.model_name_or_path)
    run = IteratedSelfPlay(game, domain, start, problems[: script.problems], settings)
    processes = run.meet()
    with run_lock(settings.output_dir):  # another process in the folder keeps its run.json
        processes.together(lambda: describe(run, script, settings))
        run.run(tell=lambda line: print(json.dumps(line), flush=True))
    ends: list[str] = []
    if held_out:
        ends = processes.together(lambda: [run.weights("prover", t) for t in (1, settings.iterations + 1)])
    before, after = [measure(path, held_out, domain, script, settings, processes) for path in ends] or ({}, {})
    processes.together(lambda: tell(Path(settings.output_dir), before, after, report=False))


def describe(run: Any, script: IteratedArguments, settings: IteratedSettings) -> None:
    """Write run.json, which `eval` and `report` read, unless the run has begun and has it."""
    if run.begun() and (run.folder / "run.json").exists():
        return
    run.folder.mkdir(parents=True, exist_ok=True)
    processes = run.processes
    place = SimpleNamespace(output_dir=settings.output_dir, device=processes.device, world_size=processes.world)
    metrics = for_players(run.game.metrics, {kind: [kind] for kind in settings.kinds})
    declared = {metric.name: as_json(metric) for metric in metrics}
    config = {**settings.to_dict(), **vars(script), "iterations": settings.iterations, "game": "critic_discernment"}
    write_description(place, config, run.domain, method="iterated", start=run.initial, metrics=declared)


def problems_of(script: IteratedArguments, settings: IteratedSettings, domain: Any, evaluated: set[str]) -> list[Any]:
    """Return the distinct problems of the data set, or problems that the domain generates."""
    if script.dataset_name is not None:
        rows = load_problem_rows(script.dataset_name, script.dataset_train_split)
        read = checked_problems(domain, rows, script.dataset_name)
        return list({domain.key(problem): problem for problem in read}.values())
    if domain.random is None:
        raise ConfigError(f"The domain '{script.domain}' does not generate problems; pass --dataset_name.")
    return domain.random(script.problems, settings.seed, frozenset(evaluated))


def measure(
    path: str,
    held_out: list[Any],
    domain: Any,
    script: IteratedArguments,
    settings: IteratedSettings,
    processes: Processes = ALONE,
) -> Any:
    """Return a prover's figures on held-out problems, sampled under `eval_preset`."""
    n, how = script.eval_samples, preset(script.eval_preset, settings.sampling)
    size = max(settings.per_device_eval_batch_size, n)
    kind = "float32" if processes.device.type == "cpu" else "auto"
    tokenizer = tokenizer_of(path, settings, domain, held_out)
    model = load_whole(path, {"dtype": kind}).to(processes.device).eval()
    how = {"batch_size": size, "processes": processes, "chat_template_kwargs": settings.chat_template_kwargs, **how}
    return measure_prover(model, tokenizer, held_out, domain, n, **how)
