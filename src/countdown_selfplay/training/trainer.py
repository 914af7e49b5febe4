"""JointConjecturerProverTrainer: TRL's GRPOTrainer with several roles, built of the parts of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from datasets import Dataset
from peft import PeftConfig
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback, set_seed
from trl import GRPOTrainer

from .. import _trl
from .._trl_check import check_seam
from ..config import JointSelfPlayConfig
from ..config.changes import model_settings, run_settings
from ..config.part_rules import check_domain
from ..config.recipes import spread
from ..config.rules import check_progress, refuse_unsupported
from ..contract.domain import OpenDomain
from ..contract.game import Game
from ..data.anchors import rounds_loader, run_anchors
from ..data.run_files import check_run
from ..distributed.choose import choose_engine
from ..distributed.processes import advise_threads, processes_of
from ..generation.base import SamplingContext, make_sampler
from ..objectives.base import Objective
from ..policies import build_policies
from ..policies.base import evaluating
from ..policies.build import load_tokenizer
from ..policies.compiled import compile_layers
from ..policies.forward import allow_padding_free
from ..policies.mixed_adapters import allow_mixed
from ..policies.optimization import group_settings, optimizer_class, parameter_groups, role_schedule, tag_roles
from ..policies.shared_prefix import share_prefixes
from ..random_state import python_random_kept
from ..rewards import ConjecturerReward
from ..rewards.prover.verifier import checked_reward_funcs
from ..statistics.solved import CumulativeSolveRate
from . import parts
from .callbacks.progress import show_rounds
from .callbacks.round_end import GuardCallback, RoundEnd, Termination
from .callbacks.run_folder import BeforeAfter, RunFolder, report_of
from .checkpoints import refuse_class
from .evaluation import Evaluator
from .exports import Exports, check_saved
from .learners import demonstrations_of, learners_of, states_of
from .metrics_buffer import MetricsBuffer, RunCounts
from .progress import check_scored_twice
from .rollbacks import Training
from .rollouts import Rollouts
from .round_loop import OptimizerSteps, RoundLoop
from .run_lock import make_folder
from .store import Store
from .upload import push_trained


class JointConjecturerProverTrainer(GRPOTrainer):
    """GRPOTrainer for several roles. Each step plays a round: a conjecturer writes problems, a prover solves them, and
    the verifier's verdicts reward both. Each role has its own objective, learning rate, KL and sampling settings.

    Args:
        model: Id, path or model of both roles, or one per role: `{"prover": ..., "conjecturer": ...}`.
        reward_funcs: Prover rewards, as in TRL; they get the columns of the domain's `prove_row` and `verdict`.
            Default: the verifier's score, and the length penalties that `args` sets.
        args: Settings. Default: `JointSelfPlayConfig("joint-selfplay")`.
        train_dataset: Anchor problems (columns `nums` or `numbers`, and `target`). Prompts are rendered
            from the numbers. Default: problems of the domain's generator.
        eval_dataset: Held-out problems with the same columns; proposals that repeat one are refused.
        processing_class: Tokenizer. Default: that of `model`.
        callbacks: Callbacks to add to the trainer's.
        optimizers: An optimizer, with at least one parameter group per role, and a scheduler; each may be None.
        peft_config: Adapter of each player, or under `policy_sharing: tied` of the shared weights.
        objectives: By role, an object or a name; replaces the objective of `args`.
        conjecturer_reward: A function `(solve_rate_P, ctx) -> reward_P`, or a name; replaces that of `args`.
        domain: Problems, prompts and verifier; replaces `args.domain`.
        game: Object that plays the rounds; replaces `args.game`.

    Raises:
        ConfigError, DataError: For settings or data that cannot work, mostly before a model loads.
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
        check_seam()
        args = parts.settled_for(args or JointSelfPlayConfig("joint-selfplay"), game, peft_config)
        self.engine = choose_engine(args)
        refuse_unsupported(args, self.engine.name)
        refuse_class("domain", domain)
        self.domain: Any = check_domain(args, domain)
        rewards = parts.prover_rewards(args, self.domain, reward_funcs)
        self.roles, self.trained = args.all_roles, args.trained_roles
        self.learners = learners_of(args, self.domain, self.roles, objectives)
        self.game: Game = parts.game_of(args, self.domain, conjecturer_reward, game)
        check_progress(args, self.engine.name, getattr(self.game, "reward", None))
        self.guard = parts.guard_of(args, parts.declared_metrics(self.game, args.players_by_kind, self.domain.cures))
        self.conjecturer_guard = parts.conjecturer_guard_of(args)
        # Data before models: a bad row is reported without waiting for a 7B model to load.
        proposer = self.game.proposer
        targets = proposer is not None and proposer.chooses_targets
        rows, eval_rows, listed, self.held_out = run_anchors(args, self.domain, train_dataset, eval_dataset, targets)
        self.solve_rate = CumulativeSolveRate(sorted(set(listed)))
        given = dict(domain=None if domain is None and args.domain == "countdown" else self.domain)
        given |= dict(reward_funcs=reward_funcs, objectives=objectives, conjecturer_reward=conjecturer_reward)
        config = {name: value for name, value in spread(args.to_dict()).items() if name != "domain"}
        settings = run_settings(config, listed, self.held_out, given | dict(peft_config=peft_config))
        tokenizer = load_tokenizer(model, args.trust_remote_code) if processing_class is None else processing_class
        tokenizer = parts.ready_tokenizer(args, self.domain, rows, tokenizer)
        set_seed(args.seed)  # adapters start at random values: the same ones in every run and on every process
        self.policies = build_policies(model, self.roles, args.policy_sharing, peft_config, args.model_init_kwargs)
        ends = parts.end_tokens(args, self.domain, rows, self.policies, tokenizer)
        parts.warn_of_lost_steps(self.policies, args.learning_rate)
        make_folder(args.output_dir)
        own_callbacks = self._build_parts(args, settings, proposer, tokenizer)
        with _trl.trl_defaults(args):
            super().__init__(
                model=self.policies.module,
                reward_funcs=checked_reward_funcs(rewards, self.domain.rules),
                args=args,
                train_dataset=rows,
                eval_dataset=eval_rows,
                processing_class=tokenizer,
                callbacks=[*own_callbacks, *(callbacks or [])],
                optimizers=optimizers,
            )
        self.eos_token_ids = ends
        self._bind(model)

    def _build_parts(
        self, args: JointSelfPlayConfig, settings: dict[str, Any], proposer: Any, tokenizer: Any
    ) -> list[TrainerCallback]:
        """Build the parts that do not need the constructed Trainer; return the callbacks in the order in which they
        must run: round's metrics, guard, run folder, termination."""
        self.processes = processes_of(PartialState(), in_step=self.engine.shards_weights)
        self.counts, self.buffer = RunCounts(), MetricsBuffer(self, self.roles, self.processes)
        self.exports = Exports(args, self.engine, self.processes, self.counts, self.domain, proposer, tokenizer)
        states = {"frame": self.counts, "game": self.game, "guard": self.guard, **states_of(self.learners)}
        states |= {"guard/conjecturer": self.conjecturer_guard, "solve_rate": self.solve_rate}
        self.store = Store(args, self.engine, self.processes, states, settings, self.exports)
        self.optimizer_steps = OptimizerSteps(self)
        self.round_end = RoundEnd(self.optimizer_steps, self.roles, self.buffer, self.store)
        self.termination = Termination(self.processes, self._save_now)
        self.before_after = BeforeAfter(self._log_evaluation)
        return [
            self.round_end,
            GuardCallback(self.guard, self.conjecturer_guard, self.buffer, self.store, self._save_now),
            RunFolder(self.buffer, self.exports, self.solve_rate),
            self.termination,
        ]

    def _bind(self, source: object) -> None:
        """Connect the parts to the constructed Trainer. `source`: the model as it was passed."""
        args, tokenizer, optimizer = self.args, self.processing_class, self.optimizer
        self.optimizer_is_ours = optimizer is None
        if args.device.type == "cpu":
            advise_threads()
        self.engine.wrapped = lambda: self.model_wrapped
        anchored = [role for role in self.trained if self.roles[role].beta > 0]
        adapters, gather = args.policy_sharing == "lora", self.processes.gather
        self.store.settings |= model_settings(self.policies.module, adapters, bool(anchored), gather)
        self.engine.bind(self.accelerator, self.policies, args.max_grad_norm)
        if optimizer is not None:
            tag_roles(optimizer, self.policies)
            self.round_end.configured_groups = group_settings(optimizer)
        show_rounds(self, self.guard.metrics)
        self.policies.top1 = any(learner.replay is not None for learner in self.learners.values())
        temperatures = {role: s.temperature for role, s in self.roles.items()}
        self.policies.prepare(temperatures, anchored, tokenizer, self.engine.place_reference)
        solvers = [role for role, settings in self.roles.items() if settings.kind == args.solver.kind]
        check_scored_twice(self.policies, solvers, getattr(self.game, "reward", None))
        if args.padding_free:
            allow_padding_free(self.policies.module)
        elif args.shared_prefix != "off":
            models = [self.policies.module, *self.policies.frozen_copies]
            self.policies.shares_prompts = share_prefixes(models, args.shared_prefix, self.engine.shards_weights)
        if args.policy_sharing == "lora" and args.mixed_adapters != "off":
            allow_mixed(self.policies, args.mixed_adapters, self.engine.name, args.padding_free)
        if args.torch_compile:
            backend, mixes = str(args.torch_compile_backend), self.policies.mixed is not None
            compile_layers(self.policies.module, backend, args.torch_compile_mode, self.engine.name, mixes)
        self.policies.enable_gradients()
        self.add_callback(self.before_after)  # after the user's callbacks
        self.buffer.collected["round"] = self._metrics
        for role, learner in self.learners.items():
            settings, rungs = self.roles[role], args.demonstration_rungs
            learner.demonstrations = demonstrations_of(role, settings, self.domain, tokenizer, rungs)
        stops = {role: settings.stops(self.domain) for role, settings in self.roles.items()}
        known = (args, self.roles, self.policies, self.processes, tokenizer, self.eos_token_ids, stops.get)
        context = SamplingContext(*known, self.counts.key, self.buffer.record)
        self.sampler = make_sampler(context, self.engine, source)
        self.rollouts = Rollouts(self, context)
        self.round_loop = RoundLoop(self)
        self.evaluator = Evaluator(self.sampler, self.engine, self.domain, self.num_generations_eval)

    def get_train_dataloader(self) -> Any:
        rows, shuffle = self.train_dataset, bool(self.shuffle_dataset)
        return self.accelerator.prepare(rounds_loader(self.args, rows, lambda: self.state.global_step, shuffle))

    def training_step(self, model: torch.nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Play a round on the anchors in `inputs`, take all its optimizer steps but the last; return the mean loss."""
        start = time.perf_counter()
        model.train()
        loss = self.optimizer_steps.take(model, self.round_loop.play(inputs))
        self.buffer.record("step_time", time.perf_counter() - start)
        return loss

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return inputs  # a micro-batch, as it is

    def get_total_train_batch_size(self, args: Any) -> int:
        """Return the number of samples of trained roles in a round, for the Trainer's samples per second."""
        return sum(self.args.samples()[role] for role in self.trained)

    def floating_point_ops(self, inputs: Any) -> int:
        return 0  # as for every batch without tensors; the Trainer first counts the model's parameters

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any], completion_ids_list: list[Any]
    ) -> torch.Tensor:
        """Return TRL's rewards of verified completions (their rows get the column `verdict`), zeros for others."""
        return self.rollouts.rewards(super()._calculate_rewards, inputs, prompts, completions, completion_ids_list)

    def compute_loss(
        self, model: torch.nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        if return_outputs:
            raise ValueError("The joint trainer's losses return no model outputs; call it with return_outputs=False.")
        return self.optimizer_steps.loss(model, **inputs)

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        """Return the gradient norm to log: computed here under DDP without a gradient scaler, else by the Trainer."""
        if grad_norm is not None or self.engine.name != "ddp" or self.accelerator.scaler is not None:
            return super()._get_grad_norm(model, grad_norm)
        return torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])

    def create_optimizer(self, model: torch.nn.Module | None = None) -> torch.optim.Optimizer:
        if self.optimizer is None:
            cls, kwargs = optimizer_class(self.args, self.model)
            decayed = set(self.get_decay_parameter_names(self.model))
            groups = parameter_groups(self.policies, self.roles, decayed, self.args.weight_decay)
            self.optimizer = cls(groups, **kwargs)
            self.round_end.configured_groups = group_settings(self.optimizer)
        self.policies.enable_gradients()
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> Any:
        if self.lr_scheduler is None:
            target: Any = self.optimizer if optimizer is None else optimizer
            steps = num_training_steps * self.args.steps_per_round
            self.lr_scheduler, self._created_lr_scheduler = role_schedule(self.args, target, steps, self.roles), True
        return self.lr_scheduler

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train as Trainer does. `True` resumes from the newest complete checkpoint and logs defective ones; "auto"
        does so if one exists, and else starts a run. The collapse guard's rollbacks resume from the last healthy
        checkpoint. SIGTERM ends the run by SystemExit(143) after the round, with a checkpoint unless saving is off."""
        return Training(self).train(super().train, resume_from_checkpoint, *args, **kwargs)

    def evaluate(
        self,
        eval_dataset: Dataset | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Return pass@k of the prover by the verifier, with private random generators, so that training does not
        change. Without a data set, here or in the constructor, 512 held-out problems of the domain are used. The first
        evaluation, before `train`, and the last one are "before" and "after" in evaluation.json."""
        rows: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        step = self.state.global_step if self.is_in_train else None
        metrics, figures = self.evaluator.pass_at(rows, metric_key_prefix, step)
        reported = figures if metric_key_prefix == "eval" else None
        self.before_after.take(self.args, self.state, dict(metrics), reported)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _log_evaluation(self, metrics: dict[str, float]) -> None:
        with evaluating(self.model):  # in training mode TRL would add the rounds' collected metrics (time/*)
            self.log(metrics)

    def report(self, output: str | Path | None = None) -> Path:
        """Write the report of the run so far to `output` (default: report.html in the run folder); return its path."""
        folder = Path(self.args.output_dir)
        path = folder / "report.html" if output is None else Path(output)
        return report_of(folder, path) if self.processes.main else path

    @python_random_kept()  # TRL draws the completions that it prints
    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log `logs` and means since the last log: `round/*`, `<role>/*`, `lr/<role>` and `grad_norm/<role>`."""
        if "loss" in logs and self.buffer.rounds:
            logs.update(self.buffer.take())
        super().log(logs, start_time)

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        stock = super()._save_checkpoint
        self.store.loop = self.buffer.state_dict()
        self.store.save(lambda: stock(model, trial), self.state, self.optimizer)

    def _save_now(self) -> None:
        self._save_checkpoint(self.model, None)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write each policy to `<output_dir>/<role>` and load it again. Raises ExportError if the loaded model
        differs. With `_internal_call`, in a checkpoint: write the weights of all policies for a resume."""
        if _internal_call:
            super().save_model(output_dir, _internal_call=True)
        else:
            check_saved(self.exports.write_last(Path(output_dir or self.args.output_dir)))

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `save_model` writes one card per role, and a checkpoint holds several models."""

    def push_to_hub(self, commit_message: str | None = None, **kwargs: Any) -> list[str]:  # type: ignore[override]
        """Save the models and upload them; return the repositories' ids. `kwargs`: arguments of `upload.push`."""
        check_run(Path(self.args.output_dir))
        self.save_model()
        return self.processes.together(lambda: push_trained(self.args, commit_message=commit_message, **kwargs))
