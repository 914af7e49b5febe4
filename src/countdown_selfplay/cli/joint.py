"""`countdown-selfplay joint`: train a conjecturer and a prover against each other, evaluate before and after, report.
`rloo`, `pool`, `sgs`, `symbolic` and `cdg --training online` are `joint` with another default recipe and one check."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from trl import ModelConfig, get_peft_config

from ..config import JointSelfPlayConfig
from ..config.script import JointScriptArguments, callbacks_of, check_starts, reward_funcs_of
from ..errors import ConfigError
from ..packages import CALLED, need
from ..rewards.prover.verifier import make_verdict_reward
from ..tiny import resolve_model
from .commands import TRAINERS
from .options import parse_options


def parse(argv: list[str], command: str = "joint") -> tuple[JointScriptArguments, JointSelfPlayConfig, ModelConfig]:
    """Parse recipe, config file and flags (ascending precedence), and check the script's arguments."""
    script, training, model = parse_options(command, argv)
    if script.eval_problems == 0 and training.eval_strategy != "no":
        raise ConfigError(
            f"`eval_strategy` ({training.eval_strategy.value}) evaluates on held-out problems, and `eval_problems` is "
            "0; raise that, or pass --eval_strategy no."
        )
    if script.control:
        check_control(script, training)
    if script.early_stopping_patience is not None:
        if training.eval_strategy == "no":
            raise ConfigError(
                f"`early_stopping_patience` ({script.early_stopping_patience}) counts evaluations, and "
                "`eval_strategy` is no; set it to steps, with eval_steps."
            )
        training.metric_for_best_model = training.metric_for_best_model or "eval_pass@1"
        if training.greater_is_better is None:
            training.greater_is_better = True
        training.restore_callback_states_from_checkpoint = True  # a resumed run continues the checkpoint's count
    return script, training, model


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None, command: str = "joint") -> int:
    """Run the command. `launch`: launch options that a dry run plans for. `command`: a name in TRAINERS."""
    argv = list(sys.argv[1:] if argv is None else argv)
    script, training, model = parse(argv, command)
    refused = TRAINERS[command].refusal(training)
    if refused is not None:
        raise ConfigError(refused)
    return play(script, training, model, launch, control_of(argv, script, training, command))


def control_of(
    argv: list[str], script: JointScriptArguments, training: JointSelfPlayConfig, command: str = "joint"
) -> tuple[JointSelfPlayConfig, dict[str, Any]] | None:
    """Return config and trainer arguments of the run without a conjecturer that `control` adds, else None."""
    if not script.control or script.dry_run or script.probe:
        return None
    folder = str(Path(training.output_dir) / "control")
    alone = ["--control", "false", "--conjecturer_players", "0", "--output_dir", folder]
    options = parse([*argv, *alone], command)
    return options[1], build_arguments(*options)


def check_control(script: JointScriptArguments, training: JointSelfPlayConfig) -> None:
    """Raise ConfigError without a trained conjecturer, with early stopping, and under DeepSpeed or FSDP."""
    if "conjecturer" not in training.trained_roles:
        raise ConfigError("`control` (True) plays the run again without its conjecturer, and none is trained here.")
    if script.early_stopping_patience is not None:
        raise ConfigError(
            "`control` (True) plays as many rounds as the run, and `early_stopping_patience` may end that; set one."
        )
    if any(os.environ.get(f"ACCELERATE_USE_{engine}") == "true" for engine in ("DEEPSPEED", "FSDP")):
        raise ConfigError(
            "`control` (True) trains two runs in one process, which sharded engines cannot; run `countdown-selfplay "
            "rloo` with the same settings afterwards, and put the two folders into one report."
        )


def play(
    script: JointScriptArguments,
    training: JointSelfPlayConfig,
    model: ModelConfig,
    launch: dict[str, str] | None,
    control: tuple[JointSelfPlayConfig, dict[str, Any]] | None = None,
) -> int:
    """Train, or only plan (`dry_run`) or measure memory (`probe`). `control`: config and arguments of the run without
    a conjecturer that follows."""
    if script.dry_run:
        dry_run(script, training, model, launch)
    players = [settings.model for settings in training.all_roles.values()]
    check_starts(model.model_name_or_path, *players, script.dataset_name)
    if script.dry_run:
        return 0
    from ..planning.dry_run import print_probe, warn_of_room

    if not script.probe:
        warn_of_room(script, training, model)
    arguments = build_arguments(script, training, model)
    if script.probe:
        print_probe(script, training, arguments)
        return 0
    from ..training.run import run_joint

    run_joint(script, training, arguments, control)
    return 0


def dry_run(
    script: JointScriptArguments, training: JointSelfPlayConfig, model: ModelConfig, launch: dict[str, str] | None
) -> None:
    """Print the plan of the run for this process, or for the launch that the options `launch` describe."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        raise ConfigError(
            "`--dry_run` plans for a launch without starting one, and this process was started by one; run "
            "`countdown-selfplay joint --dry_run --accelerate_config NAME_OR_FILE --num_processes N` instead."
        )
    from ..planning.dry_run import print_dry_run
    from .launch import planned

    engine = planned(launch) if launch else None
    if engine is not None and training.bf16 and not engine.bf16:
        engine = replace(engine, bf16=True)  # the config's bf16 counts where the launch file says nothing
    print_dry_run(script, training, model, resolve_model(model.model_name_or_path), engine)


def build_arguments(script: JointScriptArguments, training: JointSelfPlayConfig, model: ModelConfig) -> dict[str, Any]:
    """Build the trainer's arguments that come from the script's and the model's options."""
    arguments: dict[str, Any] = {
        "model": resolve_model(model.model_name_or_path),
        "peft_config": get_peft_config(model),
    }
    if script.reward_funcs:
        arguments["reward_funcs"] = reward_funcs_of(script.reward_funcs, make_verdict_reward("verifier_reward"))
    callbacks = callbacks_of(script.callbacks, script.early_stopping_patience)
    if script.report_every is not None:
        need(CALLED["write_report"], "`report_every`")
        from ..training.callbacks.run_folder import ReportEvery

        callbacks.append(ReportEvery(script.report_every))
    return arguments | ({"callbacks": callbacks} if callbacks else {})
