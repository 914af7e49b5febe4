"""JointConjecturerProverTrainer: TRL's GRPOTrainer, played by several roles. Overrides only."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, IterableDataset
from peft import PeftConfig
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, set_seed

from .. import _trl
from ..config import JointSelfPlayConfig
from ..config.changes import model_settings, run_settings
from ..contract.domain import OpenDomain
from ..contract.game import Game
from ..data.anchors import anchor_dataset, check_enough, listed_keys, problem_keys, repeated, warn_overlap, warn_twice
from ..distributed.choose import choose_engine
from ..distributed.processes import processes_of
from ..domains import domain_from
from ..evaluation.sampling import neutral_generation
from ..generation import make_sampler
from ..objectives.base import Objective
from ..policies import build_policies
from ..policies.build import load_tokenizer
from ..policies.forward import allow_padding_free
from ..policies.optimization import group_settings, optimizer_class, parameter_groups, role_schedule, tag_roles
from ..random_state import python_random_kept
from ..rewards import ConjecturerReward
from ..rewards.prover.checked import checked_reward_funcs
from ..statistics.solve_rate import CumulativeSolveRate
from . import checkpoints, rollbacks
from .anchor_order import AnchorStream, rounds_loader, stream_loader
from .callbacks import Termination, default_callbacks, show_rounds
from .evaluation import evaluate_in_training, write_report_of
from .exports import export_policies
from .frame import Frame
from .host import Host
from .loop_state import loop_state
from .metrics import averaged_rounds, role_rollout_metrics, summed_histogram
from .micro_batch import is_empty, role_loss
from .parts import (
    advise_threads,
    check_episodes,
    check_parts,
    checked_verdicts,
    conjecturer_guard_of,
    declared_metrics,
    default_rewards,
    end_tokens,
    game_of,
    guard_of,
    losses_of,
    refuse_engine_for_conjecturer,
    refuse_mapping,
    refuse_mixed_tables,
    refuse_odd_weights,
    refuse_unfit_prompts,
    refuse_unsupported,
    role_objectives,
    summed_rewards,
    turns_of,
    with_roles_of,
)
from .replay import replays_of
from .round import play_round
from .run_lock import make_folder


class JointConjecturerProverTrainer(Host):
    """GRPOTrainer for several roles. Each step plays a round: a conjecturer writes problems, a prover solves them, and
    the verifier's solve rate rewards both. Each role has its own objective, learning rate, KL and sampling settings.

    Args:
        model: Id, path or model of both roles, or one per role: `{"prover": ..., "conjecturer": ...}`.
        reward_funcs: Prover rewards, as in TRL; they get the columns of the domain's `prove_row` and `verdict`.
            Default: the verifier's score, and the length penalty if `args.length_penalty` is set.
        args: Settings. Default: `JointSelfPlayConfig("joint-selfplay")`.
        train_dataset: Anchor problems (columns `nums` or `numbers`, and `target`), or a stream, which is read
            repeatedly until `max_steps`. Prompts are rendered from the numbers. Default: the exact generator.
        eval_dataset: Held-out problems with the same columns; proposals that repeat one are refused.
        processing_class: Tokenizer. Default: that of `model`.
        callbacks: Added to the trainer's callbacks.
        optimizers: An optimizer, with at least one parameter group per role, and a scheduler; each may be None.
        peft_config: Adapter of each player (`policy_sharing: lora`) or of the shared weights (`tied`).
        objectives: By role, an object or a name; replaces the objective of `args`.
        conjecturer_reward: A function `(solve_rate_P, ctx) -> reward_P`, or a name; replaces that of `args`.
        domain: Problems, prompts and verifier; replaces `args.domain`.
        game: The round; replaces `args.game`.

    Raises:
        ConfigError, DataError: Before a model loads, for settings or data that cannot work.
    """

    _tag_names = ["trl", "countdown-selfplay", "self-play"]  # noqa: RUF012 -- TRL declares it so
    _name = "JointConjecturerProver"
    args: JointSelfPlayConfig
    processing_class: Any
    num_generations_eval: int
    model: Any
    loss_is_scaled_for_ga: Any = True  # RoleLoss divides by the role's own counts (rule 4 of the design)

    def __init__(
        self,
        model: str | PreTrainedModel | Mapping[str, str | PreTrainedModel],
        reward_funcs: Callable[..., Any] | list[Callable[..., Any]] | None = None,
        args: JointSelfPlayConfig | None = None,
        train_dataset: Dataset | None = None,
        eval_dataset: Dataset | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[torch.optim.Optimizer | None, Any] = (None, None),
        peft_config: PeftConfig | None = None,
        objectives: Mapping[str, Objective | str] | None = None,
        conjecturer_reward: ConjecturerReward | str | None = None,
        domain: OpenDomain[Any] | None = None,
        game: Game | None = None,
    ) -> None:
        _trl.check_seam()
        args = with_roles_of(JointSelfPlayConfig("joint-selfplay") if args is None else args, game)
        self.engine = choose_engine(args)
        refuse_unsupported(args, self.engine.name)
        check_parts(args, reward_funcs, domain=domain)
        self.domain = domain_from(args) if domain is None else domain
        played = None if domain is None and args.domain == "countdown" else self.domain
        self.roles = args.all_roles
        # Hidden from the stock Trainer while it trains: rollbacks.py says why.
        self.max_grad_norm, self.save_total_limit = args.max_grad_norm, args.save_total_limit
        self.termination = Termination(self)
        self.trained = args.trained_roles
        self.objectives = role_objectives(args, {role: self.roles[role] for role in self.trained}, objectives)
        self.replays = replays_of(self.objectives, self.roles, check_episodes(args, self.domain))
        self.game: Game = game_of(args, conjecturer_reward, game)
        self.frame = Frame()
        self.guard = guard_of(args, declared_metrics(self.game, args.players_by_kind))
        self.conjecturer_guard = conjecturer_guard_of(args)
        refuse_engine_for_conjecturer(self.conjecturer_guard, self.engine.name)
        # Data before models: a bad row is reported without waiting for a 7B model to load.
        refuse_mapping(eval_dataset)
        eval_rows = None if eval_dataset is None else anchor_dataset(eval_dataset, self.domain, args.seed)
        self.held_out = problem_keys(eval_rows, self.domain)
        rows = anchor_dataset(train_dataset, self.domain, args.seed, self.held_out)
        listed = listed_keys(rows, self.domain)
        if hasattr(getattr(self.game, "proposer", None), "targets"):
            warn_twice(listed)
            rows = repeated(rows, args)
        check_enough(rows, args)
        refuse_mixed_tables(args, self.domain, rows)
        self.solve_rate = CumulativeSolveRate(sorted(set(listed))) if listed else None
        parts: dict[str, Any] = dict(domain=played, reward_funcs=reward_funcs, objectives=objectives)
        parts |= dict(conjecturer_reward=conjecturer_reward, peft_config=peft_config)
        config = {name: value for name, value in args.to_dict().items() if name != "domain"}
        self.settings = run_settings(config, listed, self.held_out, parts)
        self.changed_settings: dict[str, list[Any]] = {}  # of a resume: {name: [there, here]}
        self.verified_checkpoint: Path | None = None
        if processing_class is None:
            processing_class = load_tokenizer(model, args.trust_remote_code)
        refuse_unfit_prompts(args, self.domain, rows, processing_class)
        set_seed(args.seed)  # adapters start at random values: the same ones in every run and on every process
        self.policies = build_policies(model, self.roles, args.policy_sharing, peft_config, args.model_init_kwargs)
        reward_funcs = default_rewards(args, self.domain) if reward_funcs is None else reward_funcs
        refuse_odd_weights(args, reward_funcs)
        make_folder(args.output_dir)
        with _trl.trl_defaults(args):
            super().__init__(
                model=self.policies.module,
                reward_funcs=checked_reward_funcs(reward_funcs, getattr(self.domain, "rules", None)),
                args=args,
                train_dataset=rows,
                eval_dataset=eval_rows,
                processing_class=processing_class,
                callbacks=[*default_callbacks(self), *(callbacks or [])],
                optimizers=optimizers,
            )
        if args.device.type == "cpu":
            advise_threads()
        self.eos_token_ids = end_tokens(self)
        self.engine.bind(self.accelerator, self.policies, self.max_grad_norm)
        self.processes = processes_of(self.accelerator, in_step=self.engine.shards_weights)
        referred_to = any(self.roles[role].beta > 0 for role in self.trained)
        gather, sharing = self.processes.gather, args.policy_sharing
        self.settings |= model_settings(self.policies.module, sharing == "lora", referred_to, gather)
        self._optimizer_is_ours = optimizers[0] is None
        if optimizers[0] is not None:
            tag_roles(optimizers[0], self.policies)
            self.configured_groups = group_settings(optimizers[0])
        show_rounds(self, self.guard.metrics)
        warn_overlap(listed, self.held_out)
        self.policies.top1 = bool(self.replays)
        self.policies.prepare(
            {role: s.temperature for role, s in self.roles.items()},
            [role for role in self.trained if self.roles[role].beta > 0],
            processing_class,
            self.engine.place_reference,
        )
        if args.padding_free:
            allow_padding_free(self.policies.module)
        self.policies.enable_gradients()
        self._role_metrics: dict[str, dict[str, defaultdict[str, list[float]]]] = {
            role: {"train": defaultdict(list), "eval": defaultdict(list)} for role in self.roles
        }
        self.round_metrics: list[dict[str, Any]] = []  # of the rounds since the last log
        self.round_samples: list[dict[str, Any]] = []  # of the last round, for samples.jsonl
        self.anchor_stream: AnchorStream | None = None
        self.loop: dict[str, Any] = {}  # of the last checkpoint that was written or resumed (loop_state)
        self.completion_logs: defaultdict[str, list[Any]] = defaultdict(list)  # by role, of its turns of the round
        self.signalless = self.idle = frozenset()  # of the window at hand (Host)
        self.losses, self.demonstrations = losses_of(self)
        self.logged_histogram: list[int] | None = None
        self.sampler = make_sampler(turns_of(self), self.engine, model)
        self._round: list[dict[str, Any]] | None = None
        self._judged = self._verdicts = None  # problems of the completions that are sampled, or verdicts on them
        self._captured: tuple[list[str], list[Any] | None, torch.Tensor] | None = None

    # -- a role's turn -----------------------------------------------------------------------------------------------

    @contextmanager
    def sampling_as(self, role: str) -> Iterator[None]:
        """Inside the block the module's forward and generate are those of `role`, in the precision of the loss
        (accelerate puts autocast on the module's forward alone, and generate goes past it) and of its distribution."""
        with self.policies.active(role), neutral_generation(self.policies.module), self.accelerator.autocast():
            yield

    @contextmanager
    def acting_as(self, role: str, n: int, judged: list[Any] | None = None) -> Iterator[None]:
        """Inside the block, forward, generation, sampling settings and TRL's metrics are those of `role`, which
        samples `n` completions per prompt. `judged`: the problems that each completion is verified by."""
        swapped = {
            **_trl.sampling_overrides(
                self.generation_kwargs, self.eos_token_ids, self.roles[role], self.stops(role), n
            ),
            **self.sampler.begin(role, self.state.global_step),
            "_metrics": self._role_metrics[role],
            "_logs": _trl.empty_logs(),
            "_judged": judged,
        }
        kept = {name: getattr(self, name, None) for name in swapped}
        with ExitStack() as stack:
            stack.enter_context(self.sampling_as(role))
            try:
                for name, value in swapped.items():
                    setattr(self, name, value)
                yield
            finally:
                for name, value in kept.items():
                    setattr(self, name, value)

    def stops(self, role: str) -> list[str] | None:
        """Where the role's generation ends besides the end token."""
        return self.roles[role].stops(self.domain)

    def captured(self) -> tuple[list[str], list[Any] | None, torch.Tensor]:
        """Texts, verdicts and summed rewards of the completions that were sampled last; once."""
        found, self._captured = self._captured, None
        assert found is not None
        return found

    # -- the round ---------------------------------------------------------------------------------------------------

    def get_train_dataloader(self) -> Any:
        return stream_loader(self) if isinstance(self.train_dataset, IterableDataset) else rounds_loader(self)

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """Play a round at its first micro-batch; hand out its micro-batches one by one, window after window."""
        position = self._step % (self.args.gradient_accumulation_steps * self.args.steps_per_round)
        if position == 0 or self._round is None:
            self._round = play_round(self, generation_batch)
        self.signalless, self.idle = self._round[position]["signalless"], self._round[position]["idle"]
        return self._round[position]

    def training_step(self, model: torch.nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Of a window's empty micro-batches only the last runs through the Trainer, which ends the step."""
        position = self._step % (self.args.gradient_accumulation_steps * self.args.steps_per_round)
        if position and self._round is not None and not self.last_of_window and is_empty(self, self._round[position]):
            self._step += 1
            return torch.zeros((), device=self.accelerator.device)
        return super().training_step(model, inputs, num_items_in_batch)

    def floating_point_ops(self, inputs: Any) -> int:
        return 0  # as of every batch without tensors; the Trainer counts the model's parameters before it sees that

    @property
    def first_of_window(self) -> bool:
        """Is the micro-batch at hand the first of its optimizer step?"""
        return self._step % self.args.gradient_accumulation_steps == 0

    @property
    def last_of_window(self) -> bool:
        return (self._step + 1) % self.args.gradient_accumulation_steps == 0

    def _time(self, name: str, start: float) -> None:
        self._metrics["train"][name].append(time.perf_counter() - start)

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any], completion_ids_list: list[Any]
    ) -> torch.Tensor:
        """TRL's rewards for completions that are judged, which get the verdict as a column; for others none (a game
        knows them later). Keeps the texts."""
        texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]  # no function may change them
        verdicts = self._verdicts if self._judged is None else checked_verdicts(self.domain, texts, self._judged)
        if verdicts is None:
            per_func = torch.zeros(len(prompts) * self.processes.world, len(self.reward_funcs))
            per_func = per_func.to(self.accelerator.device)
        else:
            inputs = [row | {"verdict": verdict} for row, verdict in zip(inputs, verdicts, strict=True)]
            per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        mine = per_func[self.processes.rank * len(prompts) :][: len(prompts)]
        self._captured = (texts, verdicts, summed_rewards(mine, self.reward_weights))
        return per_func

    # -- loss and optimizer ------------------------------------------------------------------------------------------

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> torch.Tensor:
        if return_outputs:
            raise ValueError("The joint trainer's losses return no model outputs; call it with return_outputs=False.")
        return role_loss(self, model, inputs)

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            cls, kwargs = optimizer_class(self.args, self.model)
            decayed = set(self.get_decay_parameter_names(self.model))
            groups = parameter_groups(self.policies, self.roles, decayed, self.args.weight_decay)
            self.optimizer = cls(groups, **kwargs)
            self.configured_groups = group_settings(self.optimizer)
        self.policies.enable_gradients()
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> Any:
        if self.lr_scheduler is None:
            target: Any = self.optimizer if optimizer is None else optimizer
            self.lr_scheduler = role_schedule(self.args, target, num_training_steps, self.roles)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    # -- loop, log, checkpoints --------------------------------------------------------------------------------------

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As in Trainer. `True` resumes from the newest complete checkpoint, and says which ones it skipped; "auto"
        does so if there is one and else starts; the collapse guard's rollbacks are resumes from the last healthy one.
        SIGTERM ends the run with a checkpoint at the end of the round, by SystemExit(143)."""
        return rollbacks.train_with_rollbacks(self, super().train, resume_from_checkpoint, *args, **kwargs)

    def forget_optimizer(self) -> None:
        """Before a rollback: the resume builds optimizer and schedule anew and loads their state."""
        if self._optimizer_is_ours:
            self.optimizer = self.lr_scheduler = None

    def evaluate(
        self,
        eval_dataset: Dataset | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """pass@k of the prover by the verifier's bit, with private randomness: training goes on as if it had not
        happened. Without a data set, here or in the constructor: on 512 problems of the domain's held-out side."""
        return evaluate_in_training(self, eval_dataset, metric_key_prefix)

    def report(self, output: str | Path | None = None) -> Path:
        """Write the page about the run so far, report.html in its folder unless `output` is given; its path."""
        return write_report_of(self, output)

    @python_random_kept()  # TRL draws the completions that it prints
    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the rounds since the last log: `round/*`, `<role>/*`, `lr/<role>` and `grad_norm/<role>`."""
        if "loss" in logs and self.round_metrics:
            logs.update(averaged_rounds(self.round_metrics))
            self.logged_histogram = summed_histogram(self.round_metrics)
            for role, modes in self._role_metrics.items():
                logs.update(role_rollout_metrics(role, modes["train"]))
                modes["train"].clear()
            self.round_metrics = []
        super().log(logs, start_time)

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        if not checkpoints.between_rounds(self):
            return
        self.loop = loop_state(self)
        checkpoints.save(self, super()._save_checkpoint, model, trial)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write each policy to `<output_dir>/<role>`, a folder that loads anywhere. (In a checkpoint: the weights of
        all of them, as the stock Trainer resumes from.)"""
        if _internal_call:
            super().save_model(output_dir, _internal_call=True)
        else:
            export_policies(self, Path(output_dir or self.args.output_dir))

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: exports.write_model_card writes one per role, and a checkpoint holds several models."""
