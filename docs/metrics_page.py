"""Write the tables of docs/metrics.md from the declarations of the metrics: `python docs/metrics_page.py`.

Each metric is declared once, with its explanation and its ranges; what stands outside the two marks of the page is
written by hand. A test compares the page with what this script makes.
"""

from __future__ import annotations

import re
from pathlib import Path

from countdown_selfplay.contract import trainer_metrics
from countdown_selfplay.contract.metric import Metric, range_text
from countdown_selfplay.games import metrics
from countdown_selfplay.guides import judge
from countdown_selfplay.lab.proposers.rungs import ORACLE
from countdown_selfplay.proposers.metrics import REPAIRED, SYMBOLIC, TARGETS, TIERS

PAGE = Path(__file__).parent / "metrics.md"
BEGIN, END = "<!-- declared: docs/metrics_page.py writes from here -->", "<!-- declared: to here -->"
SECTIONS = {
    "Is the curriculum alive?": ("", metrics.ROUND),
    "The conjecturer's proposals": ("Each rate is a share of all proposals of the round.", metrics.PROPOSALS),
    "Targets": (
        "Of the proposer `targets` and the guides beside it; see [self-guided self-play](sgs.md).",
        (*TARGETS, *judge.Judge.metrics),
    ),
    "Axes": ("By rung and by every other axis of the domain ([the plane](arena.md#over-the-plane)).", metrics.BY_AXIS),
    "A pool's tiers": ("With the proposer `tiers` ([Pools](pools.md)).", TIERS),
    "The prover's answers": ("", metrics.ANSWERS),
    "The Critic-Discernment Game": (
        "Of the game `critic_discernment`, whose prover's first answers are counted as in the table above.",
        (*metrics.REVISIONS, *metrics.CRITIQUES),
    ),
    "Proposers over rungs": (
        "[Who chooses the rungs](concepts.md#proposers-over-rungs), and the repaired arm of the proposer `policies`.",
        (*ORACLE, REPAIRED),
    ),
    "Symbolic proposers": (
        "[What they do](symbolic.md). Most of these exist only in the rounds that refresh the generated problems. "
        "The metrics of a\nconjecturer's proposals above are logged for theirs as `proposer/...` too.",
        SYMBOLIC,
    ),
    "Texts": (
        "Counted over what the round sampled, before samples are selected or replayed. TRL's `completions/*` are not "
        "logged: TRL counts a\nrow with a stop string in its last column as truncated, and the padding after a "
        "stop string as tokens.",
        trainer_metrics.TEXTS,
    ),
    "Optimisation, per role": ("", trainer_metrics.ROLE),
    "Time": (
        "Each is the mean over the rounds since the last training log. An evaluation between two logs has a "
        "separate line without\nthem.",
        trainer_metrics.TIME,
    ),
    "Samplers, reward functions, evaluations": (
        "Evaluation uses separate random generators: runs with and without it have bit-identical trajectories.",
        trainer_metrics.OTHERS,
    ),
}


def shown(name: str) -> str:
    """ "prover/reward" for "{prover}/reward", "<role>/loss" for "{role}/loss"."""
    return re.sub(r"\{(\w+)\}", r"\1", name.replace("{role}", "<role>"))


def guarded(metric: Metric) -> str:
    """When the guard rolls back, in words."""
    rules = [f"mean outside {range_text(metric.trip)}"] if metric.trip else []
    rules += [f"above 0 in {metric.in_a_row} rounds in a row"] if metric.in_a_row else []
    rules += ["not finite"] if metric.finite else []
    return ", ".join(rules)


def row(metric: Metric) -> str:
    text = metric.explained.replace("|", "\\|")
    chart = shown(metric.panel.title) if metric.panel else ""
    cells = (f"`{shown(metric.name)}`", text, range_text(metric.healthy), guarded(metric), chart)
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def tables() -> str:
    parts = []
    for title, (note, declared) in SECTIONS.items():
        head = ["| metric | meaning | healthy | the guard rolls back | chart |", "|---|---|---|---|---|"]
        parts += [f"## {title}", *([note] if note else []), "\n".join([*head, *map(row, declared)])]
    return "\n\n".join(parts)


def page(text: str) -> str:
    """The page `text` with the tables as they are declared now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.name}")
