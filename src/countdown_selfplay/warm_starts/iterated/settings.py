"""Settings of an iterated run and of the training of its roles, their summary in a dry run, and the training budget of
another run."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, MinLen

from ...config.settled import check_numbers
from ...data.run_files import read_phases
from ...errors import ConfigError, DataError
from ...evaluation.terminal import aligned
from ...options import Range, check_options, json_object, option
from ...registry import Count, annotations_of, described, fits, nearest
from ...training.checkpoints import check_state
from ..filters import is_loop

Algorithm = Literal["rest", "expert_iteration", "dpo", "step_dpo"]
PAIRWISE = ("dpo", "step_dpo")
"""Algorithms that train on pairs of a better and a worse text by TRL's DPOTrainer; the others use its SFTTrainer."""
ANSWERS_ALONE = ("expert_iteration", "step_dpo")
"""Algorithms without the game: the prover answers, and critics do not play (Wang et al. 2025, section 5.1)."""


Positive = Annotated[float, Gt(0)]
PER_ITERATION = ("learning_rate", "batch_size", "max_steps")


@dataclass(frozen=True)
class RoleTraining:
    """Selection of a role's samples, and its training on them (Wang et al. 2025, appendix B). A setting per iteration
    is a list or one value for all; its last value is that of all further iterations. Raises ConfigError for a value
    that does not fit its annotation."""

    num_generations: Count = 4
    """Samples per row: 4 first answers of the prover, 8 helpful or 4 misleading critiques."""
    threshold: float = 0.5
    """Least reward of a sample that is kept: .5 for the prover and the helpful critic, .75 for the misleading one."""
    inclusive: bool = True
    """Whether a reward equal to the threshold is kept (appendix B: "at least two" of four). False: equation 5."""
    labels: tuple[str, ...] | None = None
    """Labels of the game (`Turn.labels`) of samples that are kept; None: all."""
    failures: tuple[str, ...] | None = None
    """Labels of samples that count as failures in pairs. None: all samples that are not kept."""
    balance: Count | None = None
    """Most samples of each label in an iteration (Wang et al.: 10,000); and no label has more than the rarest has,
    unless that is 0. Iterations are balanced one by one, then united (Algorithm 2)."""
    drop_loops: bool = True
    """Whether to drop samples that repeat a long substring. Wang et al. do so for the prover's; a critic quotes."""
    accumulate: bool = True
    """Whether to keep the samples of earlier iterations. Algorithm 2 does so for the prover and the misleading critic,
    section 3.2 for every role."""
    learning_rate: Annotated[tuple[Positive, ...], MinLen(1)] = (5e-6, 1e-6)
    """Learning rate, per iteration."""
    batch_size: Annotated[tuple[Count, ...], MinLen(1)] = (32, 256)
    """Rows of an optimizer step, per iteration."""
    epochs: Positive = 1.0
    """Passes over the data; 2 for the helpful critic."""
    max_steps: Annotated[tuple[Annotated[int, Ge(0)], ...], MinLen(1)] | None = None
    """Optimizer steps per iteration in place of `epochs`: the training budget of another run. 0: the role keeps its
    weights. None: by epochs."""

    def __post_init__(self) -> None:
        hints = annotations_of(type(self))
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            if name in PER_ITERATION and value is not None and not isinstance(value, list | tuple):
                value = (value,)
            if isinstance(value, list | tuple):
                value = tuple(value) if name in ("labels", "failures") else tuple(map(_number, value))
            else:
                value = _number(value)
            object.__setattr__(self, name, value)
            if not fits(value, hints[name]):
                shown = list(value) if isinstance(value, tuple) else value
                raise ConfigError(f"`{name}` ({shown!r}) must be {described(hints[name])}.")

    def keeps(self, reward: float, label: str) -> bool:
        """Return whether a sample is trained on."""
        if self.labels is not None and label not in self.labels:
            return False
        return reward >= self.threshold if self.inclusive else reward > self.threshold

    def loops(self, text: str) -> bool:
        """Return whether a sample is dropped for its repetitions."""
        return self.drop_loops and is_loop(text)

    def fails(self, reward: float, label: str) -> bool:
        """Return whether a sample is the worse one of a pair."""
        return not self.keeps(reward, label) if self.failures is None else label in self.failures


FAILURES = ("wrong", "misled", "unclear", "not_corrected")


def paper_roles(algorithm: str = "rest") -> dict[str, RoleTraining]:
    """Return the roles of Wang et al. in the Critic-Discernment Game; only the prover's data are balanced. Their
    sampling (temperature .95, top-p .95, top-k 5, 4,096 tokens; appendix A) is that of IteratedSettings. DPO: learning
    rate 1e-6 and 64 pairs per step (appendix B)."""
    roles = {
        "prover": RoleTraining(4, 0.5, labels=("right", "resisted", "corrected"), failures=FAILURES, balance=10_000),
        "helpful": RoleTraining(8, 0.5, drop_loops=False, accumulate=False, epochs=2.0),
        "misleading": RoleTraining(4, 0.75, drop_loops=False),
    }
    if algorithm in PAIRWISE:
        pairs = {"learning_rate": (1e-6,), "batch_size": (64,), "epochs": 1.0}
        roles = {kind: replace(role, **pairs) for kind, role in roles.items()}  # type: ignore[arg-type]
    return roles


def answers_alone(kinds: Mapping[str, RoleTraining]) -> dict[str, RoleTraining]:
    """Return the prover of a baseline with first answers only; its single label may have as many rows as all
    of the game's."""
    prover = kinds["prover"]
    balance = None if prover.balance is None else prover.balance * len(prover.labels or (1,))
    return {"prover": replace(prover, labels=("right",), failures=("wrong",), balance=balance)}


@dataclass(kw_only=True)
class EngineFields:
    """Fields of generation backends, with the joint trainer's meaning (docs/generation.md); each names its backend."""

    generation_backend: Literal["generate", "vllm", "vllm_server"] = option(
        "generate",
        "What samples completions. generate: the roles' models. vllm: one vLLM engine in each process, to which a "
        "role's weights are pushed before its turn. vllm_server: one vLLM server (weights over NCCL, on GPUs).",
    )
    vllm_gpu_memory_utilization: float = option(
        0.3, "Share of the GPU that vLLM keeps, in retraining too unless it sleeps.", Range(0, 1, above=True)
    )
    vllm_max_model_length: int | None = option(
        None, "Tokens of a prompt and its completion that vLLM holds; None: the model's most.", Range(1)
    )
    vllm_tensor_parallel_size: int = option(1, "Processes that share one vLLM engine.", Range(1))
    vllm_enable_sleep_mode: bool = option(False, "Free the engine's memory after each generation.")
    vllm_model_impl: str = option("vllm", "vLLM's own code of the model (vllm), or Transformers' (transformers).")
    vllm_engine_kwargs: dict | str | None = option(
        None,
        "Further arguments of vLLM's LLM as JSON, such as '{\"enforce_eager\": true}'. dtype defaults to bfloat16, "
        "on a CPU to float32.",
    )
    vllm_server_base_url: str | None = option(None, "The server; None: http://0.0.0.0:8000.")
    vllm_server_timeout: float = option(240.0, "Seconds to wait for a server that is starting.", Range(0, above=True))
    vllm_group_port: int = option(51216, "Port over which the weights go to the server.", Range(1, 65535))
    vllm_request_timeout: float = option(
        600.0, "Seconds that one request to the server may take.", Range(0, above=True)
    )
    vllm_request_retries: int = option(5, "How often a request that got no answer is sent again.", Range(0))


@dataclass
class IteratedSettings(EngineFields):
    """Settings of an iterated run, and options of its command."""

    output_dir: str = option("iterated-selfplay", "The folder of the run.")
    role_training: dict | str | None = option(
        None,
        "Settings per role, as a mapping in YAML and Python and as JSON here: how many samples, which are kept, how "
        "they are trained on. It replaces a recipe's as a whole. None: the Critic-Discernment Game's of the paper.",
    )
    algorithm: Algorithm = option(
        "rest",
        "How roles are retrained. rest: on the samples that are kept (the paper's way). dpo: on pairs of "
        "a success and a failure at the same prompt. expert_iteration: on right first answers alone, without "
        "critics. step_dpo: on pairs at the first wrong step of first answers, without critics.",
    )
    leave_out: list[str] = option(factory=list, help="Roles that do not play, such as misleading (section 5.2).")
    iterations: int = option(2, "How often all problems are played; may be raised later.", Range(1))
    chunk: int = option(64, "Problems that are played and written at a time: the most that a kill can cost.", Range(1))
    temperature: float = option(0.95, "Sampling temperature.")
    top_p: float = option(0.95, "Nucleus of the sampling; 1 switches it off.")
    top_k: int = option(5, "Top-k of the sampling; 0 switches it off.")
    max_completion_length: int = option(4096, "Most tokens in a sampled completion.")
    per_device_eval_batch_size: int = option(256, "Completions generated at once, on each process.")
    per_device_train_batch_size: int = option(8, "Rows per forward pass in retraining, on each process.")
    max_length: int | None = option(None, "Tokens of a row; longer ones are left out of training and counted.")
    beta: float = option(0.5, "DPO's beta, which ties a role to its initial model.", Range(0, above=True))
    imitate: str | None = option(
        None,
        "The folder of another iterated run, whose first iteration's chosen samples the model is trained "
        "on before it plays: for base models, which do not know the game (section 4.1).",
    )
    chat_template_path: str | None = option(
        None, "A model whose chat template is used, such as the instruct model beside a base model."
    )
    chat_template_kwargs: str | None = option(
        None, "Variables of the chat template as JSON, such as '{\"enable_thinking\": false}'."
    )
    imitate_rows: int = option(30_000, "Samples of `imitate` that are trained on, at most.", Range(1))
    seed: int = option(0, "Of sampling, balancing and training.")
    bf16: bool | None = option(None, "Mixed precision in retraining; None: on GPUs that have bfloat16.")
    gradient_checkpointing: bool = option(
        False, "Compute activations again in backward: less memory, a third more time in retraining."
    )
    use_cpu: bool = option(False, "Play and train on the CPU, also where there is a GPU.")

    def __post_init__(self) -> None:
        check_options(self)
        kinds = _kinds(self.role_training, self.algorithm)
        known = list(dict.fromkeys([*kinds, *paper_roles()]))
        for kind in self.leave_out:
            if kind not in known:
                raise ConfigError(f"`leave_out` ({kind}) must name roles that play.{nearest(kind, known)}")
        self.kinds: dict[str, RoleTraining] = {kind: r for kind, r in kinds.items() if kind not in self.leave_out}
        if self.algorithm in ANSWERS_ALONE:
            if "prover" not in self.kinds:
                raise ConfigError(f"`algorithm` ({self.algorithm}) trains the prover, and it does not play; let it.")
            self.kinds = answers_alone(self.kinds)
        check_numbers(self)
        check_sizes(self)

    @property
    def sampling(self) -> dict[str, Any]:
        """Arguments of `sample_completions`."""
        names = ("temperature", "top_p", "top_k")
        return {n: getattr(self, n) for n in names} | {"max_new_tokens": self.max_completion_length}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON, which a resume compares. Folder, number of iterations, and hardware may change."""
        settings = {**asdict(self), "role_training": {kind: asdict(role) for kind, role in self.kinds.items()}}
        engine = [field.name for field in fields(EngineFields)]
        for name in ("output_dir", "iterations", "use_cpu", "gradient_checkpointing", *engine):
            del settings[name]
        return settings


def of_iteration(values: Sequence[Any], iteration: int) -> Any:
    """Return the value of iteration 1, 2, ...; the last one for all later ones."""
    return values[min(iteration, len(values)) - 1]


def check_sizes(settings: IteratedSettings, world: int = 1) -> None:
    """Raise ConfigError unless `world` processes can share every role's steps evenly."""
    most = settings.per_device_train_batch_size
    for kind, role in settings.kinds.items():
        for size in role.batch_size:
            each = size // world
            if size % world or (each > most and each % most):
                each_process = "" if world == 1 else f" on each of {world} processes ({size / world:g})"
                raise ConfigError(
                    f"`role_training.{kind}.batch_size` ({size}) must be{each_process} a whole number, at most "
                    f"`per_device_train_batch_size` ({most}) or a multiple of it; change one of them."
                )


def check_settings(settings: IteratedSettings, game: Any, domain: Any) -> None:
    """Raise ConfigError unless the settings fit game and domain: each of the game's roles plays or is optional."""
    kinds, algorithm, roles = settings.kinds, settings.algorithm, list(game.roles)
    if set(kinds) - set(roles):
        raise ConfigError(
            f"`role_training` ({', '.join(kinds)}) names kinds that the game does not have; it has {', '.join(roles)}."
        )
    lost = [kind for kind in roles if kind in settings.leave_out and kind not in game.optional_roles]
    if lost:
        raise ConfigError(f"`leave_out` ({lost[0]}) names a role without which there is no game; let it play.")
    missing = [kind for kind in roles if kind not in kinds and kind not in settings.leave_out]
    if missing and algorithm not in ANSWERS_ALONE:
        raise ConfigError(
            f"`role_training` ({', '.join(kinds)}) lacks {' and '.join(missing)}, who play too; give each its "
            f"settings ({{}} for the paper's), or set `leave_out` to play without."
        )
    words = game.labels
    for kind, role in kinds.items():
        for name, given in (("labels", role.labels or ()), ("failures", role.failures or ())):
            strange = [word for word in given if word not in words.get(kind, given)]
            if strange:
                raise ConfigError(
                    f"`role_training.{kind}.{name}` ({strange[0]}) is no word of this game for a sample of {kind}; "
                    f"name some, or null for all.{nearest(strange[0], list(words[kind]))}"
                )
    if any(getattr(settings, f.name) != f.default for f in fields(EngineFields)):
        from .engine import joint_settings

        joint_settings(settings)
    check_state("game", game)
    state = game.state_dict()
    if state:
        raise ConfigError(
            f"The game {type(game).__name__} has a state ({', '.join(map(str, state))}), which iterated play keeps "
            "neither after a kill nor for the next iteration; play it with JointConjecturerProverTrainer, or leave "
            "`state_dict` out."
        )
    if algorithm != "step_dpo":
        return
    if domain.critique is None or domain.critique.cut_at_mistake is None:
        raise ConfigError(
            f"`algorithm` (step_dpo) needs a domain that finds the first wrong step of an answer, and "
            f"{type(domain).__name__} has no `cut_at_mistake`; take dpo."
        )
    if domain.rules is not None and domain.rules.answer_format != "bare":
        raise ConfigError(
            "`algorithm` (step_dpo) reads the steps of bare answers, and this prover's are in tags; set "
            "`prover_prompt` to compact, or take dpo."
        )


def _kinds(given: Mapping[str, Any] | str | None, algorithm: str) -> dict[str, RoleTraining]:
    """Return `role_training` as objects. Raises ConfigError for anything but a mapping of known settings."""
    paper = paper_roles(algorithm)
    if given is None:
        return paper
    roles = json_object("role_training", given, '{"prover": {"epochs": 2}}')
    return {kind: _role(kind, role, paper.get(kind, RoleTraining())) for kind, role in roles.items()}


def _role(kind: str, given: Any, usual: RoleTraining) -> RoleTraining:
    if isinstance(given, RoleTraining):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"`role_training.{kind}` ({given!r}) must map settings to values, such as {{'epochs': 2}}.")
    names = [f.name for f in fields(RoleTraining)]
    for name in given:
        if name not in names:
            raise ConfigError(f"`role_training.{kind}.{name}` is not a setting of a role.{nearest(name, names)}")
    try:
        return replace(usual, **given)
    except ConfigError as error:
        raise ConfigError(str(error).replace("`", f"`role_training.{kind}.", 1)) from None


def _number(value: Any) -> Any:
    """Convert a text of a number, as which YAML reads 5e-6 without a dot, to that number; return other values
    unchanged."""
    for kind in (int, float) if isinstance(value, str) else ():
        with suppress(ValueError):
            return kind(value)
    return value


def plan(settings: IteratedSettings, game: Any, problems: int) -> list[str]:
    """Return lines on the samples of an iteration if all answers get the more frequent type of critic, and on the
    training of each role."""
    answers = settings.kinds["prover"].num_generations if "prover" in settings.kinds else 0
    critics = {kind: role.num_generations for kind, role in settings.kinds.items() if kind != "prover"}
    critiques = answers * max(critics.values(), default=0)
    revisions = critiques * getattr(game, "revisions", 0)
    lines = [
        "",
        "# An iteration",
        f"{problems} problems in chunks of {settings.chunk}; a problem: {answers} answers, at most {critiques} "
        f"critiques and {revisions} revisions; in all at most {problems * (answers + critiques + revisions):,} "
        f"samples of up to {settings.max_completion_length:,} tokens",
        "",
        f"# Training ({settings.algorithm}, each role from its initial model)",
    ]
    table: list[tuple[str, ...]] = [
        ("role", "iteration", "learning rate", "rows a step", "passes", "kept", "rows at most")
    ]
    for kind, role in settings.kinds.items():
        table += [_row(kind, role, t) for t in range(1, settings.iterations + 1)]
    if settings.imitate:
        lines.append(f"iteration 0: at most {settings.imitate_rows:,} samples of {settings.imitate} are imitated")
    return [*lines, aligned(table)]


def _row(kind: str, role: RoleTraining, iteration: int) -> tuple[str, ...]:
    steps = role.max_steps and of_iteration(role.max_steps, iteration)
    each = iteration if role.accumulate else 1  # iterations are balanced one by one
    most = "all" if role.balance is None else f"{each * role.balance:,} of each label"
    return (
        kind,
        str(iteration),
        f"{of_iteration(role.learning_rate, iteration):g}",
        str(of_iteration(role.batch_size, iteration)),
        f"{steps} steps" if steps is not None else f"{role.epochs:g}",
        f"reward {'>=' if role.inclusive else '>'} {role.threshold:g}",
        most,
    )


def samples_of(folder: Path) -> int:
    """Return the number of untruncated texts that an iterated run sampled. Raises DataError if there are none."""
    lines = read_phases(folder / "iterations.jsonl")
    sampled = sum(line["samples"] for line in lines if line["phase"] == "play")
    if not sampled:
        raise DataError(f"'{folder}' holds no iteration that was played, so it is no budget; play that run first.")
    return int(sampled)


def with_budget(kinds: Mapping[str, RoleTraining], folder: Path, iterations: int) -> dict[str, RoleTraining]:
    """Return the roles with the steps (`max_steps`) that the iterated run in `folder` took, 0 where a role kept its
    weights. Raises ConfigError unless it finished as many iterations with these roles."""
    if not folder.is_dir():
        raise ConfigError(f"There is no run folder '{folder}'; `budget_of` takes the output_dir of an iterated run.")
    lines = read_phases(folder / "iterations.jsonl")
    steps = {(line["iteration"], line["role"]): line.get("steps", 0) for line in lines if line["phase"] == "train"}
    budgets = {}
    for kind, training in kinds.items():
        took: list[Any] = [steps.get((t, kind)) for t in range(1, iterations + 1)]
        if None in took:
            raise ConfigError(
                f"`budget_of` ({folder}) tells of no training of the {kind} in iteration {took.index(None) + 1}; name "
                f"a run that trained it in all of {iterations}, or set `role_training.{kind}.max_steps`."
            )
        budgets[kind] = replace(training, max_steps=tuple(took))
    return budgets
