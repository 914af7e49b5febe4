"""Table of the commands of `countdown-selfplay`. Imports neither torch nor TRL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config.script import CDG, POOL, SGS

_JOINT = (
    "countdown_selfplay.config.script:JointScriptArguments",
    "countdown_selfplay.config.joint:JointSelfPlayConfig",
)


@dataclass(frozen=True)
class Command:
    """Command of `countdown-selfplay`; one with a trainer is a Trainer."""

    help: str
    """Help line in `countdown-selfplay --help`."""
    module: str
    """Module below `countdown_selfplay` whose `main(argv)` runs the command; it may be absent (packages.py)."""


@dataclass(frozen=True)
class Trainer(Command):
    """Command with a trainer: it takes recipes, config files, a flag for each field, and the launch options."""

    recipe: str
    """Recipe to run where the arguments name neither a recipe, a config file nor a model."""
    epilog: str
    """Paragraph at the top of the command's --help."""
    settings: tuple[str, str] = _JOINT
    """Dataclasses of the script's options and the trainer's config, as module:name; TRL's ModelConfig is the third."""
    kind: str = "joint"
    """Command whose recipes this command reads."""
    recipe_with_model: bool = False
    """Whether `recipe` also applies where a model is named."""
    forced: Mapping[str, str] = field(default_factory=dict)
    """Flags that the command fixes, with their values."""
    refusal: Callable[[Any], str | None] = lambda training: None
    """Function of the config that returns the reason to refuse the settings of another command, or None."""
    start: Path | None = None
    """Folder that --prepare of the command fills."""
    plans_launch: bool = True
    """Whether a --dry_run with launch options plans for that launch instead of starting it."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Field that only other commands have -> sentence that names the option of this command."""

    @property
    def models(self) -> tuple[str, ...]:
        """Dataclasses of the options, as module:name."""
        countdown = ("countdown_selfplay.config.fields:CountdownArguments",) * (self.kind == "joint")
        return (*self.settings, "trl:ModelConfig", *countdown)


def _only_with(cure: str, *proposers: str) -> Callable[[Any], str | None]:
    """Return the `refusal` of a command that accepts only these proposers. cure: remedy in the message."""

    def refusal(training: Any) -> str | None:
        wrong = training.proposer not in proposers
        return f"`proposer` ({training.proposer}) must be {' or '.join(proposers)} here; {cure}." if wrong else None

    return refusal


def _rloo(training: Any) -> str | None:
    objective, model = training.role("prover").objective, training.given("conjecturer", "model")
    if objective == "rloo" and model is None:
        return None
    wrong = f"`conjecturer_model` ({model})" if objective == "rloo" else f"`prover_objective` ({objective})"
    return (
        f"{wrong} is not for rloo, which trains the prover alone and by RLOO; use `joint`, with --conjecturer_players "
        "0 if the prover shall learn alone."
    )


def _symbolic(training: Any) -> str | None:
    if training.proposer in (None, "policies", "tiers", "targets", "stp"):
        return (
            f"`proposer` ({training.proposer}) is not for `symbolic`; set mutation, ucb, thompson or factorized, or "
            "use `joint`, where a conjecturer proposes."
        )
    if training.players_of("conjecturer"):
        return (
            f"`conjecturer_players` ({training.given('conjecturer', 'players')}) gives the run a conjecturer "
            f"that nobody asks for problems: `proposer` is {training.proposer}; set it to 0."
        )
    return None


def _as_joint(recipe: str, start: Path | None = None) -> str:
    text = f"With no argument it plays recipe {recipe}. The options are those of joint"
    if start is None:
        return f"{text}.\n"
    return (
        f"{text}, and --prepare [--recipe NAME]:\nit makes what the recipe starts from in {start}, once, in a few "
        "minutes, and ends. A second call finds it there.\n"
    )


_JOINT_EPILOG = """
With no argument it trains the embedded tiny model (recipe tiny/default). --recipe NAME and --config FILE set any field
below; the file overrides the recipe, a flag both: --learning_rate also a recipe's prover_learning_rate.
"""
_CDG_EPILOG = f"""
--training iterated: play all problems, choose samples, retrain every role from its initial model, and again.
With no argument it plays recipe tiny/iterated_cdg from {CDG}, a warm start of the embedded model, which
does not know the game: `countdown-selfplay cdg --prepare` makes it, once, in a few minutes. --training online has the
options of joint.
"""
_SFT_EPILOG = """
With no argument it fine-tunes the embedded tiny model (recipe tiny/sft) on demonstrations of the exact solver.
--recipe NAME and --config FILE set any field; the file overrides the recipe, a flag both. Held-out problems are
never trained on.
"""
_IPO_EPILOG = """
With no argument the embedded tiny model (recipe tiny/ipo) is trained on pairs of its answers. --recipe NAME and
--config FILE set any field; the file overrides the recipe, a flag both. Held-out problems are never trained on.
"""
_HEADROOM_EPILOG = """
Settings as those of joint, whose domain must have rungs; with no argument those of recipe tiny/ladder. It plays short
runs of them in OUTPUT_DIR/headroom, or in OUTPUT_DIR if that is its name, and leaves headroom.json, headroom.svg, and
gains.json, the table of the oracle, which a run plays by with --proposer oracle_rungs --proposer_kwargs
'{"gains": "FILE"}'.
"""
_CONFIGS = "countdown_selfplay.warm_starts.configs"
_CDG_HELP = "Play the Critic-Discernment Game: answer, criticise, revise; --training online or iterated"

ONLINE = "cdg --training online"
JOINT = "cli.joint"

COMMANDS: dict[str, Command] = {
    "joint": Trainer("Train a conjecturer and a prover jointly", JOINT, "tiny/default", _JOINT_EPILOG),
    "sft": Trainer(
        "Warm-start a role by supervised fine-tuning on demonstrations", "warm_starts.cli.sft", "tiny/sft",
        _SFT_EPILOG,
        (f"{_CONFIGS}:SFTArguments", f"{_CONFIGS}:SFTSettings"), "sft",
    ),
    "ipo": Trainer(
        "Prefer right over wrong samples with IPO, TRL's DPOTrainer", "warm_starts.cli.ipo", "tiny/ipo", _IPO_EPILOG,
        (f"{_CONFIGS}:IPOArguments", f"{_CONFIGS}:IPOSettings"), "ipo",
    ),
    "rloo": Trainer(
        "Train a prover alone by RLOO, with the trainer, folder and report of joint", JOINT, "tiny/rloo",
        _as_joint("tiny/rloo"), forced={"conjecturer_players": "0"}, refusal=_rloo,
    ),
    "pool": Trainer(
        "Train a pool: conjecturers by tiers of difficulty, several provers, expert iteration", JOINT, "tiny/pool",
        _as_joint("tiny/pool", POOL), start=POOL,
        refusal=_only_with("pass --recipe tiny/pool (or qwen2.5-0.5b/pool), or use `joint`", "tiers"),
    ),
    "sgs": Trainer(
        "Train on a set of hard targets, with problems proposed for each unsolved one", JOINT, "tiny/sgs",
        _as_joint("tiny/sgs", SGS), start=SGS,
        refusal=_only_with("other rounds are played by `joint`", "targets", "stp"),
    ),
    "symbolic": Trainer(
        "Train a prover on problems that a symbolic proposer makes and selects", JOINT, "tiny/symbolic_ucb",
        _as_joint("tiny/symbolic_ucb"), refusal=_symbolic,
    ),
    "cdg": Trainer(
        _CDG_HELP, "warm_starts.cli.cdg", "tiny/iterated_cdg", _CDG_EPILOG,
        ("countdown_selfplay.warm_starts.cli.cdg:IteratedArguments",
         "countdown_selfplay.warm_starts.iterated.settings:IteratedSettings"), "cdg", start=CDG,
        elsewhere={
            "max_steps": " Iterated training has --iterations; for online training: --training online --max_steps.",
            "generation_backend": " Iterated training samples by `generate` alone; --training online has backends.",
            "learning_rate": " Iterated training has --role_training, such as "
            "'{\"prover\": {\"learning_rate\": [3e-4]}}'; for online training: --training online --learning_rate.",
        },
    ),
    ONLINE: Trainer(_CDG_HELP, JOINT, "tiny/cdg", _JOINT_EPILOG, recipe_with_model=True, start=CDG),
    "headroom": Trainer(
        "Measure in short runs whether a curriculum can pay in a setting: four gates and a verdict",
        "lab.cli.headroom", "tiny/ladder", _HEADROOM_EPILOG,
        ("countdown_selfplay.lab.headroom.settings:HeadroomArguments", _JOINT[1]),
        plans_launch=False,
    ),
    "arena": Command(
        "Play every curriculum on the same frozen problems, at equal samples, and compare them", "lab.cli.arena"
    ),
    "models": Command(
        "Make a folder of a pretrained model, from the hub, a PyPI package or a GGUF file", "warm_starts.cli.models"
    ),
    "recipes": Command("List the shipped recipes with paper, time and memory, or print one", "cli.recipes"),
    "ask": Command("Ask a trained prover for answers to one problem, or a conjecturer for problems", "lab.cli.ask"),
    "push": Command(
        "Upload the trained roles of a finished run to the Hugging Face Hub, with model cards and the report",
        "cli.push",
    ),
    "eval": Command("Score a prover or a conjecturer on held-out problems, with 95% intervals", "cli.eval"),
    "compare": Command("Compare evaluations: paired differences of pass@k with 95% intervals", "lab.cli.compare"),
    "fit-scaling": Command(
        "Fit solve rate against compute, with an interval of the asymptote where the data can give one",
        "lab.cli.fit_scaling",
    ),
    "solve": Command("Solve a Countdown problem exactly, or count its solutions", "cli.solve"),
    "verify": Command("Judge completions with the exact verifier: score, reason, value", "cli.verify"),
    "report": Command("Write report.html of one run, or compare several side by side", "lab.cli.report"),
    "playground": Command(
        "Write playground.html, which steps through the logged rounds of a run", "lab.cli.playground"
    ),
    "dataset": Command("Write solvable problems or demonstrations to a file", "warm_starts.cli.dataset"),
    "solve-rates": Command(
        "Write how often a trained prover solves new problems: what a difficulty predictor learns from",
        "warm_starts.cli.solve_rates",
    ),
    "env": Command("Print versions, device, cores, memory and installed extras; --ready plays a round", "cli.env"),
}  # fmt: skip
"""Commands by name, in the order of `countdown-selfplay --help`. `cdg --training online` is an entry of its own."""

NAMES = [name for name in COMMANDS if name != ONLINE]
TRAINERS: dict[str, Trainer] = {name: one for name, one in COMMANDS.items() if isinstance(one, Trainer)}
