"""`countdown-selfplay joint`: train a conjecturer and a prover against each other, evaluate before and after,
report."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trl import ModelConfig, TrlParser, get_peft_config

from ..config import JointSelfPlayConfig
from ..errors import ConfigError
from ..recipes import recipes

HELP = "Train a conjecturer and a prover jointly"

DEFAULT_RECIPE = "tiny/default"
EXTRA_HELP = """
With no argument it trains the embedded tiny model (recipe tiny/default). --config FILE or --recipe NAME sets any field
below; a flag overrides it.
"""


@dataclass
class JointScriptArguments:
    """What the script does around the trainer."""

    recipe: str | None = field(
        default=None, metadata={"help": "A named setting, such as tiny/default or qwen2.5-0.5b/anchored_shaped_fixed."}
    )
    conjecturer_model_name_or_path: str | None = field(
        default=None, metadata={"help": "Weights of the conjecturer. None: the same as model_name_or_path."}
    )
    dataset_name: str | None = field(
        default=None,
        metadata={"help": "Anchor problems: a hub id or a .jsonl/.parquet file. None: the exact offline generator."},
    )
    dataset_train_split: str = field(default="train", metadata={"help": "Split of dataset_name to train on."})
    eval_dataset_name: str | None = field(
        default=None, metadata={"help": "Held-out problems, likewise. None: the generator's held-out side."}
    )
    eval_dataset_split: str = field(default="test", metadata={"help": "Split of eval_dataset_name."})
    eval_problems: int = field(
        default=512, metadata={"help": "Held-out problems for the table before / after. 0: no evaluation."}
    )
    eval_proposals: int = field(default=1024, metadata={"help": "Proposals sampled for the table before / after."})
    report: bool = field(default=True, metadata={"help": "Write plots and report.html into the run folder."})
    dry_run: bool = field(
        default=False,
        metadata={"help": "Print the resolved settings, the batch arithmetic and a memory estimate, and exit."},
    )


def parse(argv: list[str]) -> tuple[JointScriptArguments, JointSelfPlayConfig, ModelConfig]:
    """Recipe < config file < flags. Unknown fields are errors."""
    argv = list(argv)
    parser = TrlParser(
        (JointScriptArguments, JointSelfPlayConfig, ModelConfig),  # type: ignore[arg-type]
        prog="countdown-selfplay joint",
        epilog=EXTRA_HELP,
    )
    # Adapter dropout would make the sampled and the trained policy two different ones; TRL's default is 0.05.
    parser.set_defaults(lora_dropout=0.0)
    chosen = _option(argv, "--recipe")
    if chosen is None and not _has(argv, "--config") and not _has(argv, "--model_name_or_path"):
        chosen = DEFAULT_RECIPE
    if chosen is not None:
        if _has(argv, "--config"):
            raise ConfigError(
                f"Pass either `--recipe` ({chosen}) or `--config`, not both; copy the recipe to edit it."
            )
        argv += ["--config", str(recipes()[chosen])]
    config = _option(argv, "--config")
    if config is not None and not Path(config).is_file():
        raise ConfigError(
            f"There is no config file '{config}'; pass a YAML file, or a --recipe: {', '.join(recipes())}."
        )
    try:
        script, training, model = parser.parse_args_and_config(args=_joined(argv))
    except ValueError as error:
        if isinstance(error, ConfigError) or "Unknown arguments from config file" not in str(error):
            raise
        raise ConfigError(f"{config}: {error}") from error
    script.recipe = chosen
    return script, training, model


def _has(argv: list[str], flag: str) -> bool:
    return any(a == flag or a.startswith(flag + "=") for a in argv)


def _option(argv: list[str], flag: str) -> str | None:
    for i, argument in enumerate(argv):
        if argument.startswith(flag + "="):
            return argument.partition("=")[2]
        if argument == flag and i + 1 < len(argv):
            return argv[i + 1]
    return None


def _joined(argv: list[str]) -> list[str]:
    """TrlParser only knows `--config FILE`, not `--config=FILE`."""
    return [part for a in argv for part in (a.split("=", 1) if a.startswith("--config=") else [a])]


def resolve_model(name: str | None) -> str:
    """Path or id of a model; "tiny" (and None) is the embedded one."""
    if name in (None, "tiny"):
        from ..tiny import TINY_MODEL_PATH

        return str(TINY_MODEL_PATH)
    assert name is not None
    return name


def main(argv: list[str] | None = None) -> int:
    script, training, model = parse(sys.argv[1:] if argv is None else argv)
    if script.dry_run:
        from .dry_run import print_dry_run

        print_dry_run(script, training, model, resolve_model(model.model_name_or_path))
        return 0
    from .joint_run import run_joint

    run_joint(script, training, build_arguments(script, training, model))
    return 0


def build_arguments(script: JointScriptArguments, training: JointSelfPlayConfig, model: ModelConfig) -> dict[str, Any]:
    """Arguments of the trainer that come from the script's and the model's options."""
    path = resolve_model(model.model_name_or_path)
    sources: Any = path
    if script.conjecturer_model_name_or_path is not None:
        sources = {"prover": path, "conjecturer": resolve_model(script.conjecturer_model_name_or_path)}
    given = training.model_init_kwargs
    training.model_init_kwargs = {
        "dtype": model.dtype,
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "trust_remote_code": training.trust_remote_code,
        **(json.loads(given) if isinstance(given, str) else given or {}),
    }
    peft_config = get_peft_config(model)
    if peft_config is not None and training.policy_sharing == "full":
        training.policy_sharing = "lora"
    return {"model": sources, "peft_config": peft_config}


if __name__ == "__main__":
    from .main import main as program

    raise SystemExit(program(["joint", *sys.argv[1:]]))
