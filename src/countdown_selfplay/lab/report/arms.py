"""Arms: runs that differ only in the seed, whose curve is the mean over seeds with a band; and their comparison."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...evaluation.findings import Judgement, sign
from ...evaluation.load import Run
from ...statistics.bootstrap import Estimate, t_interval
from ..compare import Comparison

# Fields that differ between any two runs and say nothing about the setting.
DERIVED = ("generation_batch_size", "gradient_accumulation_steps", "steps_per_generation")
PLACES = frozenset({"output_dir", "run_name", "logging_dir", "project", *DERIVED})
SEEDS = frozenset({"seed", "data_seed"})
BAND = "Mean over the seeds of an arm, with the 95% t interval of the mean over seeds (of two seeds their range)."
T_FROM = 3  # seeds from which a t interval is drawn; of two it would be 13 standard deviations wide


@dataclass(frozen=True)
class RunArm:
    """Setting and its runs, one per seed."""

    name: str
    runs: list[Run]


def arms_of(runs: Sequence[Run]) -> list[RunArm]:
    """Return the runs grouped by setting, in the order of their first runs. Runs of one setting and one seed stay
    separate: they are repetitions, or differ in something outside the config."""
    groups: dict[str, list[Run]] = {}
    for i, run in enumerate(runs):
        rest = {name: value for name, value in run.config.items() if name not in PLACES | SEEDS}
        groups.setdefault(json.dumps(rest, sort_keys=True, default=str) if run.config else str(i), []).append(run)
    arms = []
    for group in groups.values():
        seeds = [run.config.get("seed") for run in group]
        if len(group) > 1 and len(set(seeds)) == len(seeds) and None not in seeds:
            arms.append(RunArm(_name([run.name for run in group]), group))
        else:
            arms += [RunArm(run.name, [run]) for run in group]
    names = [arm.name for arm in arms]
    clear = [name if names.count(name) == 1 else f"{name}, {i}" for i, name in enumerate(names, start=1)]
    order = {id(run): i for i, run in enumerate(runs)}
    arms = [RunArm(name, arm.runs) for name, arm in zip(clear, arms, strict=True)]
    return sorted(arms, key=lambda arm: order[id(arm.runs[0])])


def over_seeds(values: Sequence[float]) -> Estimate:
    """Return the mean with a 95% t interval from three seeds on, with lowest and highest value of two."""
    if len(values) >= T_FROM:
        return t_interval(values)
    return Estimate(float(np.mean(values)), min(values), max(values))


def band_text(arms: Sequence[RunArm]) -> str:
    """Describe the intervals over seeds; "" without one."""
    return BAND if any(len(arm.runs) > 1 for arm in arms) else ""


def _name(names: Sequence[str]) -> str:
    same = [len(set(letters)) == 1 for letters in zip(*names, strict=False)]
    common = names[0][: [*same, False].index(False)].rstrip("0123456789").rstrip("-_./ ")
    common = common.removesuffix("seed").rstrip("-_./ ")
    return f"{common or names[0]} ({len(names)} seeds)"


def verdict_of_arms(comparison: Comparison | str | None) -> Judgement | None:
    """Describe which arms differ from the first one in pass@1, by the intervals that cover all differences. `found`:
    the comparison, or a sentence on why there is none."""
    if comparison is None or isinstance(comparison, str):
        return None if comparison is None else Judgement("not compared", comparison)
    k = comparison.ks[0]
    differences = [d for d in comparison.differences if d.k == k]
    intervals = [(d.arm, d.bonferroni) for d in differences if sign(d.bonferroni)]
    parts = [
        f"{arm} {'above' if sign(d) > 0 else 'below'} by {abs(d.difference):.3f} [{d.low:+.3f}, {d.high:+.3f}]"
        for arm, d in intervals
    ]
    rest = len(differences) - len(intervals)
    if rest:
        parts.append(
            f"no difference shown for {rest} of {len(differences)} arms"
            if len(differences) > 1
            else "no difference shown"
        )
    words = f"pass@{k} after training, against {comparison.arms[0]} on {comparison.problems} common problems"
    return Judgement("compared", f"{words}: {'; '.join(parts)}.")
