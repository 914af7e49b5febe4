"""Loss of a pass, and of each role in it: objective, KL to the reference, entropy bonus; and the sums of metrics."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ..config import Role
from ..objectives.base import (
    KL_ESTIMATORS,
    EntropyCoefficient,
    LossInputs,
    Objective,
    checked_loss,
    first_B,
    kl_k3,
    normalise,
    of_completion,
    truncated_weight,
)
from ..policies.forward import Watched
from .plan import Counts, Pass, at_least_float32, collate


class RoleLoss:
    """Loss of a role, normalised by the role's sample counts, so that the mix of roles does not scale its updates."""

    def __init__(self, objective: Objective, settings: Role, most_moves: int = 1) -> None:
        self.objective, self.settings, self.most_moves = objective, settings, most_moves
        self.counts = self.measured = Counts()
        step, low, high = settings.entropy_coef_delta, settings.entropy_coef_min, settings.entropy_coef_max
        self.entropy = EntropyCoefficient(settings.entropy_coef, settings.entropy_target, step, low, high)
        self._sums: dict[str, torch.Tensor] = {}
        self._maxima: dict[str, torch.Tensor] = {}

    @property
    def proportional(self) -> bool:
        """Whether a sample's gradient is proportional to its advantage. False if the loss has a KL term, an entropy
        term or an entropy target. Otherwise the objective's attribute `proportional` decides; None: true if this
        package defines the objective's `loss`."""
        known = self.objective.proportional
        built_in = type(self.objective).loss.__module__.startswith("countdown_selfplay.objectives.")
        if not (built_in if known is None else known):
            return False
        regularised = self.settings.beta > 0 and self.settings.kl_in == "loss"
        return not regularised and self.entropy.target is None and self.entropy.value == 0

    def normalise_by(self, counts: Counts, measured: Counts) -> None:
        """Set the counts that normalise the losses of an optimizer step, and those that normalise its metrics."""
        self.counts, self.measured = counts, measured

    def __call__(self, logps: torch.Tensor, entropies: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        logps, entropies = at_least_float32(logps), at_least_float32(entropies)
        behavior_BT, correction = self._sampled(logps, batch)
        weighted = logps
        if correction is not None and self.objective.sampler_correction == "ratio":
            weighted = logps + (correction - 1) * (logps - logps.detach())  # of the gradient alone
        inputs = LossInputs(
            logps_BT=weighted,
            behavior_BT=behavior_BT,
            advantages_B=batch["advantages"].to(logps.device),
            mask_BT=batch["completion_mask"].to(logps.dtype),
            sequences=self.counts.sequences,
            tokens=self.counts.tokens,
            groups=self.counts.groups,
            length_cap=self.settings.max_completion_length * self.most_moves,
            group_tokens_B=batch["group_tokens"].to(logps.dtype) if "group_tokens" in batch else None,
            correction=correction,
            sequence_B=batch.get("sequence"),
        )
        output, read = checked_loss(self.objective, inputs), self.measured
        loss, sums = output.loss, output.sums
        of_read = replace(inputs, sequences=read.sequences, tokens=read.tokens, groups=read.groups)
        if sums and read != self.counts:
            with torch.no_grad():
                sums = self.objective.loss(of_read).sums
        for name, value in sums.items():
            self._add(name, value / (read.sequences or 1.0))
        if "ref_per_token_logps" in batch:
            # Outside the mask is padding, whose log-prob may be so low that exp of a difference is infinite.
            reference_BT = torch.where(inputs.mask_BT.bool(), batch["ref_per_token_logps"], logps.detach())
            if self.settings.kl_in == "loss":
                kl_BT = KL_ESTIMATORS[self.settings.kl_estimator](logps, reference_BT)
                how = "token" if self.settings.kl_reduction == "mean" else self.objective.normalization
                loss = loss + self.settings.beta * normalise(kl_BT, inputs, how)
            self._add("kl", normalise(kl_k3(logps.detach(), reference_BT), of_read, "token"))
        if self.entropy.applied:
            loss = loss - self.entropy.applied * normalise(entropies, inputs, "token")
        if self.settings.sft_coef:
            marked_BT = batch.get("sft_mask", torch.zeros_like(inputs.mask_BT)).to(logps.dtype)
            supervised = -(logps * marked_BT).sum() / (self.counts.sft_tokens or 1.0)
            loss = loss + self.settings.sft_coef * supervised
            self._add("sft_loss", supervised)
        self._add("entropy", normalise(entropies.detach(), of_read, "token"))
        self._add("loss", loss)
        return loss

    def count_accuracy(self, top1_BT: torch.Tensor, batch: dict[str, torch.Tensor]) -> None:
        """Add a micro-batch's part of the token accuracy. `top1_BT`: 1 where a token was the most likely one."""
        right = (top1_BT.to(batch["completion_mask"].device) * batch["completion_mask"]).sum()
        self._add("token_accuracy", right / (self.measured.tokens or 1.0))

    def _sampled(
        self, logps: torch.Tensor, batch: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return log-probs of the sampling policy, (B, T), and the weight by which the objective corrects for a
        sampler other than the trained model, or None."""
        settings, sampler = self.settings, batch.get("sampling_per_token_logps")
        trained = batch.get("old_per_token_logps")
        old, mode = _behavior(logps, trained), settings.sampler_correction_mode
        if sampler is None:
            return old, None
        mask = batch["completion_mask"].to(logps.dtype)
        self._mismatch(logps.detach() if trained is None else trained, sampler, mask, batch.get("sequence"))
        if not settings.sampler_correction:
            return old, None
        if self.objective.sampler_correction == "ratio" and (trained is not None or mode.startswith("sequence")):
            return _behavior(logps, sampler), None
        low, high = settings.sampler_correction_min, settings.sampler_correction_max
        return old, truncated_weight(old, sampler, mask, mode, low, high, batch.get("sequence"))

    def _mismatch(
        self, trained: torch.Tensor, sampler: torch.Tensor, mask: torch.Tensor, sequence_B: torch.Tensor | None
    ) -> None:
        """Add metrics of the difference between the trainer's and the sampler's log-probs on trained tokens."""
        unscored = torch.isnan(sampler).to(mask.dtype) * mask
        self._add("sampler_unscored", unscored.sum() / (self.measured.tokens or 1.0))
        gap = torch.nan_to_num((trained - sampler) * mask, nan=0.0)
        self._add("sampler_logp_difference", gap.abs().sum() / (self.measured.tokens or 1.0))
        weight = torch.exp(of_completion(gap.sum(1), sequence_B).clamp(-30.0, 30.0))
        self._add("sampler_weight", (weight * first_B(mask, sequence_B)).sum() / (self.measured.sequences or 1.0))
        name, largest = "sampler_logp_difference_max", _wide(gap.abs().max())
        self._maxima[name] = torch.maximum(self._maxima.get(name, largest), largest)

    def _add(self, name: str, value: torch.Tensor) -> None:
        value = _wide(value.detach())
        self._sums[name] = self._sums[name] + value if name in self._sums else value

    def pop_sums(self) -> dict[str, torch.Tensor]:
        """Return this process's parts of the metrics' means since the last call, and reset them."""
        sums, self._sums = self._sums, {}
        return sums

    def pop_maxima(self) -> dict[str, torch.Tensor]:
        """Return the largest values on this process since the last call, and reset them."""
        maxima, self._maxima = self._maxima, {}
        return maxima


def _wide(value: torch.Tensor) -> torch.Tensor:
    """Return the tensor in float64 for long sums, or in float32 on Apple's GPUs, which lack float64."""
    return value.float() if value.device.type == "mps" else value.double()


def _behavior(logps: torch.Tensor, sampled: torch.Tensor | None) -> torch.Tensor:
    current = logps.detach()
    # A sampler that could not score a token gives NaN there: that token gets ratio 1, no correction.
    return current if sampled is None else torch.where(torch.isnan(sampled), current, sampled)


def pass_loss(
    trl: Any, model: torch.nn.Module, one: Pass, group_tokens: Mapping[str, Mapping[int, int]]
) -> torch.Tensor:
    """Return the sum of the players' losses over the samples of a pass. `group_tokens`: as in `Step`."""
    policies, device, learners = trl.policies, trl.accelerator.device, trl.learners
    batches = [collate(samples, device, group_tokens.get(role, {})) for role, samples in one.parts]
    whole = batches[0] if len(batches) == 1 else collate([s for _, samples in one.parts for s in samples], device)
    policies.activate(one.role)
    if len(batches) > 1:
        width = whole["prompt_ids"].size(1)
        owners = [policies.mixed.number(policies.weights_of[role]) for role, _ in one.parts]
        sizes = [batch["prompt_ids"].shape for batch in batches]
        policies.mixed.begin([(i, n, width - w) for i, (n, w) in zip(owners, sizes, strict=True)])
    imitates = any(learners[role].replay is not None for role, _ in one.parts)
    watched = Watched(model) if imitates else None
    measured = list(log_probs(trl, watched or model, whole))
    if watched is not None:
        measured.append(watched.top1_BT(measured[0].size(1)))
    losses, row = [], 0
    for (role, samples), batch in zip(one.parts, batches, strict=True):
        learner, length = learners[role], batch["completion_ids"].size(1)
        logps_BT, entropies_BT, *top1 = [value[row : row + len(samples), :length] for value in measured]
        if learner.replay is not None:
            learner.loss.count_accuracy(top1[0], batch)
        losses.append(learner.loss(logps_BT, entropies_BT, batch))
        row += len(samples)
    return functools.reduce(torch.add, losses)


def log_probs(trl: Any, model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probs and entropies of the completion tokens under `model`, (B, T)."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    answers = batch["completion_mask"]
    if "sft_mask" in batch:  # the supervised term also reads rows that the objective did not select
        answers = torch.maximum(answers, batch["sft_mask"])
    mask, length = torch.cat([batch["prompt_mask"], answers], 1), batch["completion_ids"].size(1)
    score = trl._get_per_token_logps_and_entropies
    logps, entropies, *_ = score(model, ids, mask, length, compute_entropy=True)
    return logps, entropies
