"""The verdict on a run in one line, which says no more than the intervals do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...statistics.bootstrap import Interval
from ...statistics.independent import independent_difference
from ..compare.comparison import Comparison
from .load import Run


@dataclass(frozen=True)
class Judgement:
    """`word`: better, worse, mixed, no change shown, or that nothing can be said yet. `text`: the numbers for it."""

    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.word[:1].upper()}{self.word[1:]}: {self.text}"


BETTER, WORSE, MIXED, UNCLEAR = "better", "worse", "mixed", "no change shown"
UNFINISHED, UNMEASURED = "not finished", "not measured"


def verdict(run: Run) -> Judgement:
    """The prover before and after training in pass@k of the least and the greatest k, the control if there is one, and
    the rates of the conjecturers that have changed."""
    changes = _ends(run.evaluation.get("difference", {}))
    if not changes:
        return _unmeasured(run)
    sides = [run.evaluation[when]["prover"] for when in ("before", "after")]
    parts, word = [], _word(changes)
    for name, change in changes.items():
        before, after = (side.get(name) for side in sides)
        moved = f" from {before.value:.3f} to {after.value:.3f}" if before and after else ""
        done = {1: " rose", -1: " fell", 0: "" if word == UNCLEAR else ": no change shown,"}[_sign(change)]
        parts.append(f"{name}{done}{moved} ({_numbers(change)})")
    text = f"{'; '.join(parts)} on {run.evaluation['after']['problems']} held-out problems, against before training."
    if word == UNCLEAR:
        name, least = next(iter(changes.items()))
        text += f" A change in {name} of less than about {(least.high - least.low) / 2:.3f} would not show here."
    return Judgement(word, " ".join(filter(None, (text, _credit(run, word), _conjecturers(run.evaluation)))))


def _conjecturers(evaluation: Mapping[str, Any]) -> str:
    """A sentence for each conjecturer with a rate whose difference is not 0; "" where none has changed."""
    said = []
    for role in (role for role in evaluation["after"] if role.startswith("conjecturer")):
        before, after = (evaluation[when].get(role, {}) for when in ("before", "after"))
        moved = {name: independent_difference(before[name], after[name]) for name in after if name in before}
        parts = [
            f"{name.replace('_', ' ')} {'rose' if _sign(change) > 0 else 'fell'} from {before[name].value:.3f} to "
            f"{after[name].value:.3f}"
            for name, change in moved.items()
            if _sign(change)
        ]
        said += [f"Rates of {role}: {', '.join(parts)}."] * bool(parts)
    return " ".join(said)


def verdict_of_arms(found: Comparison | str | None) -> Judgement | None:
    """Of several runs: which arms differ from the first one in pass@1, by the intervals that cover all differences.
    `found`: a sentence says why they are not compared."""
    if found is None or isinstance(found, str):
        return None if found is None else Judgement("not compared", found)
    k = found.ks[0]
    own = [d for d in found.differences if d.k == k]
    told = [(d.arm, d.bonferroni) for d in own if _sign(d.bonferroni)]
    said = [
        f"{arm} {'above' if _sign(change) > 0 else 'below'} by {abs(change.difference):.3f} [{change.low:+.3f}, "
        f"{change.high:+.3f}]"
        for arm, change in told
    ]
    rest = len(own) - len(told)
    if rest:
        said.append(f"no difference shown for {rest} of {len(own)} arms" if len(own) > 1 else "no difference shown")
    words = f"pass@{k} after training, against {found.arms[0]} on {found.problems} common problems"
    return Judgement("compared", f"{words}: {'; '.join(said)}.")


def _unmeasured(run: Run) -> Judgement:
    each, total, last = run.per_round, run.config.get("max_steps"), run.steps[-1] if run.steps else 0
    if not last:
        return Judgement(UNFINISHED, "no round was logged yet.")
    ended = any("train_runtime" in row for row in run.others)
    if ended or not isinstance(total, int) or last >= total:
        return Judgement(
            UNMEASURED,
            "the run has no evaluation before and after training (`eval_problems`); `countdown-selfplay eval` scores "
            "its prover.",
        )
    scores = next((row for row in reversed(run.others) if "eval_pass@1" in row), None)
    said = "" if scores is None else f"; pass@1 was {scores['eval_pass@1']:.3f} at round {int(scores['step']) // each}"
    return Judgement(UNFINISHED, f"round {last // each} of {total // each} is the last one that was logged{said}.")


def _credit(run: Run, word: str) -> str:
    """The conjecturer's part in the change: the control, or that there is none."""
    parts = []
    for name, change in _ends(run.control.get("difference", {})).items():
        numbers, sign = _numbers(change), _sign(change)
        parts.append(
            f"no difference shown in {name} ({numbers})"
            if sign == 0
            else f"{name} is {'higher' if sign > 0 else 'lower'} with the conjecturer ({numbers})"
        )
    if parts:
        return f"Against the control without a conjecturer: {'; '.join(parts)}."
    if word in (BETTER, MIXED) and any(name.startswith("conjecturer/") for name in run.names):
        return "No control was run: the same command with `--control` says how much of this the conjecturer made."
    return ""


def _ends(changes: Mapping[str, Any]) -> dict[str, Interval]:
    """Those of the least and the greatest k."""
    names: Sequence[str] = sorted(changes, key=lambda name: int(name.partition("@")[2]))
    return {name: changes[name] for name in (*names[:1], *names[1:][-1:])}


def _numbers(change: Interval) -> str:
    return f"{change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}]"


def _sign(change: Interval) -> int:
    """0 where the interval has 0 in it."""
    return (change.low > 0) - (change.high < 0)


def _word(changes: Mapping[str, Interval]) -> str:
    signs = set(map(_sign, changes.values()))
    if {1, -1} <= signs:
        return MIXED
    return BETTER if 1 in signs else WORSE if -1 in signs else UNCLEAR
