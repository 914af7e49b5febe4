"""`countdown-selfplay joint`: train a conjecturer and a prover against each other, evaluate before and after,
report."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from trl import ModelConfig, get_peft_config

from ..config import JointSelfPlayConfig
from ..config.script import JointScriptArguments
from ..errors import ConfigError
from ..policies.build import model_arguments
from ..tiny import resolve_model
from .trainer_options import parse_options

HELP = "Train a conjecturer and a prover jointly"

DEFAULT_RECIPE = "tiny/default"
EXTRA_HELP = """
With no argument it trains the embedded tiny model (recipe tiny/default). --recipe NAME and --config FILE set any field
below; the file overrides the recipe, and a flag both: --learning_rate also the prover_learning_rate of a recipe.
"""


def parse(argv: list[str], command: str = "joint") -> tuple[JointScriptArguments, JointSelfPlayConfig, ModelConfig]:
    """Recipe < config file < flags. Unknown fields are errors."""
    found = parse_options(argv, command, JointScriptArguments, JointSelfPlayConfig, EXTRA_HELP, DEFAULT_RECIPE)
    script, training, _ = found
    if script.eval_problems == 0 and training.eval_strategy != "no":
        raise ConfigError(
            f"`eval_strategy` ({training.eval_strategy.value}) evaluates on held-out problems, and `eval_problems` is "
            "0; raise that, or pass --eval_strategy no."
        )
    return found


def main(argv: list[str] | None = None, launch: dict[str, str] | None = None) -> int:
    """`launch`: options of a launch that a dry run is to plan for."""
    return play(*parse(sys.argv[1:] if argv is None else argv), launch)


def play(
    script: JointScriptArguments, training: JointSelfPlayConfig, model: ModelConfig, launch: dict[str, str] | None
) -> int:
    """Train, or only plan or probe."""
    if script.dry_run or script.probe:
        return plan(script, training, model, launch)
    from ..training.run import run_joint

    run_joint(script, training, build_arguments(script, training, model))
    return 0


def plan(
    script: JointScriptArguments,
    training: JointSelfPlayConfig,
    model: ModelConfig,
    launch: dict[str, str] | None = None,
) -> int:
    """What --dry_run and --probe do instead of a run; 0."""
    if script.dry_run:
        return dry_run(script, training, model, launch)
    from ..planning.dry_run import print_probe

    path = resolve_model(model.model_name_or_path)
    print_probe(script, training, model, path, build_arguments(script, training, model))
    return 0


def dry_run(
    script: JointScriptArguments, training: JointSelfPlayConfig, model: ModelConfig, launch: dict[str, str] | None
) -> int:
    """Print what would be done, under the engine of this process or of the launch that is planned."""
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
    return 0


def build_arguments(script: JointScriptArguments, training: JointSelfPlayConfig, model: ModelConfig) -> dict[str, Any]:
    """Arguments of the trainer that come from the script's and the model's options."""
    path = resolve_model(model.model_name_or_path)
    players = training.all_roles
    sources: Any = {name: path if s.model is None else resolve_model(s.model) for name, s in players.items()}
    if script.conjecturer_model_name_or_path is not None:
        if training.conjecturer_model is not None:
            raise ConfigError(
                f"`conjecturer_model` ({training.conjecturer_model}) and `conjecturer_model_name_or_path` "
                f"({script.conjecturer_model_name_or_path}) say the same; set one of them."
            )
        own = resolve_model(script.conjecturer_model_name_or_path)
        sources |= dict.fromkeys(training.players_of("conjecturer") or ("conjecturer",), own)
    sources = path if set(sources.values()) == {path} else sources
    training.model_init_kwargs = model_arguments(model, training)
    peft_config = get_peft_config(model)
    if peft_config is not None and training.policy_sharing == "full":
        training.policy_sharing = "lora"
    return {"model": sources, "peft_config": peft_config}
