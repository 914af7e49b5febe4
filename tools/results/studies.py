"""Every study, its file, and which arm is compared with which control. A new folder of the ladder is one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .readers import Arms, counts, jobs, printed, rates, targets, too_easy

Pair = tuple[str, str]
"""An arm and its control."""


@dataclass(frozen=True)
class Study:
    """A family of comparisons, for which p-values are adjusted together. pairs: arm and control; None: `reference`
    and each other arm, or what is printed. right: the metric of the plot's right half. drawn: whether the plot has it.
    """

    name: str
    page: str
    read: Callable[[], Arms]
    pairs: Sequence[Pair] | None = None
    metrics: Sequence[str] = ("pass@1", "pass@16")
    right: str = "pass@16"
    reference: str | None = None
    drawn: bool = True
    shown: Mapping[str, str] | None = None


def against(control: str, *arms: str) -> list[Pair]:
    return [(arm, control) for arm in arms]


def ladder(folder: str, name: str, reference: str = "trained", drawn: bool = True) -> Study:
    return Study(f"Ladder: {name}", "ladder.md", lambda: jobs(f"ladder/{folder}"), reference=reference, drawn=drawn)


BEST = against("plain", "joint_best", "frozen_best")
BEST += against("random", "joint_best", "frozen_best", "random_best")
BEST += [("joint_best", "random_best"), ("joint_best", "frozen_best")]
OF_20 = [*BEST, *against("plain", "plain_best", "random_best"), ("plain_best", "random")]
JOINT = [("joint_best", "plain"), ("joint_best", "random")]
REWARDS = ["truncate", "tent", "binary_band", "learnability", "r_zero", "sgs", "frontier_distance"]
REWARDS += ["difficulty_diversity", "adaptive_band", "solvability_aware"]
RECIPES = {"tiny-conservative-binary": "conservative_binary", "tiny-aggressive-binary": "aggressive_binary"}
RECIPES |= {"tiny-anchored-shaped": "anchored_shaped", "tiny-anchored-shaped-fixed": "anchored_shaped_fixed"}
CURVE = against("before", "rloo_80@80", "anchored_shaped@100", "anchored_shaped_fixed@100", "fixed_problems@100")
CURVE += against("rloo_80@80", "anchored_shaped@100", "anchored_shaped_fixed@100", "fixed_problems@100")
CURVE += [("anchored_shaped_fixed@100", "fixed_problems@100")]
CURVE += [(f"{arm}@100", f"{arm}@40") for arm in ("anchored_shaped", "anchored_shaped_fixed", "fixed_problems")]
SYMBOLIC = [*against("sft", "rloo"), *against("rloo_matched", "ucb", "even"), ("ucb", "even")]
SYMBOLIC += [*against("rloo", "trained", "frozen", "uniform"), ("trained", "frozen"), ("trained", "uniform")]
SGS = [(arm, "reinforce_half") for arm in ("sgs", "no_guide", "frozen", "unconditioned", "stp", "judge", "learned")]
SGS += [("cispo", "cispo_alone"), ("sgs", "frozen"), ("sgs", "stp")]
SGS += against("parallel_sampling", "sgs", "reinforce_half", "cispo_alone", "expert_iteration")
HARD = [*against("reinforce_half", "sgs", "frozen"), ("sgs", "frozen")]
HARD += against("parallel_sampling", "sgs", "reinforce_half", "frozen")
OF_32 = against("sgs_32_reinforce_half 3e-05", "sgs_32 1e-05")
OF_32 += against("parallel_sampling", "sgs_32 1e-05", "sgs_32_reinforce_half 3e-05", "sgs_32_expert_iteration 1e-05")
OF_32 += [("sgs_32 1e-05", "sgs_32_expert_iteration 1e-05")]
OF_32 += [
    (f"sgs_32 {rate}", f"sgs_32_reinforce_half {rate}") for rate in ("1e-05", "3e-05", "0.0001", "0.0003", "0.001")
]
STUDIES = (
    ladder("main", "main study"),
    ladder("second", "second warm start"),
    ladder("to_10", "3 to 10 numbers"),
    ladder("to_40", "3 to 40 numbers"),
    ladder("repaired", "targets repaired", "repaired"),
    ladder("seconds", "equal seconds"),
    ladder("objectives", "other objectives", "rloo", drawn=False),
    ladder("rloo", "RLOO and its controls", "rloo"),
    ladder("oracle", "oracles", "oracle", drawn=False),
    ladder("long", "five times as long"),
    ladder("rloo_long", "RLOO, five times as long", "rloo"),
    Study(
        "Default run",
        "default_run.md",
        lambda: counts("default_run_counts.json"),
        [("after", "control"), ("after", "before"), ("control", "before")],
        ("pass@1", "pass@4", "pass@8", "pass@16"),
        shown={"after": "run", "control": "fixed problems"},
    ),
    Study(
        "Four runs of Allen and Ståblein",
        "four_runs.md",
        lambda: counts("seed_001_counts.json"),
        against("before", *list(RECIPES)[1:]),
        shown=RECIPES,
    ),
    Study(
        "The conservative run",
        "four_runs.md",
        lambda: counts("seed_001_conservative_counts.json"),
        against("before", "tiny-conservative-binary"),
        shown=RECIPES,
    ),
    Study("Samples to RLOO's pass@1", "four_runs.md", lambda: counts("seed_001_curve.json"), CURVE),
    Study(
        "Matched samples: MaxRL, numbers to 20", "matched_samples.md", lambda: counts("study_20_counts.json"), OF_20
    ),
    Study("Matched samples: to 30", "matched_samples.md", lambda: counts("study_30_counts.json"), JOINT),
    Study("Matched samples: to 40", "matched_samples.md", lambda: counts("study_40_counts.json"), BEST),
    Study(
        "Matched samples: RLOO, ten rewards",
        "matched_samples.md",
        lambda: counts("study_20_counts.json"),
        against("random", *(f"joint_{reward}" for reward in REWARDS)),
    ),
    *(
        Study(
            f"Matched samples: to {high}, withheld problems",
            "matched_samples.md",
            lambda high=high: counts(f"study_{high}_withheld_counts.json"),  # type: ignore[misc]
            {20: OF_20, 30: JOINT, 40: BEST}[high],
            drawn=False,
        )
        for high in (20, 30, 40)
    ),
    Study("Pools", "pools.md", lambda: printed("pools"), right="pass@32"),
    Study(
        "Pools: fixed problems",
        "pools.md",
        lambda: counts("pool_fixed_counts.json"),
        [("fixed", "single"), *against("start", "fixed", "single")],
        ("pass@1", "pass@8", "pass@32"),
        right="pass@32",
    ),
    Study("Symbolic proposers: first study", "symbolic.md", lambda: printed("symbolic")),
    Study(
        "Symbolic proposers: played again",
        "symbolic.md",
        lambda: counts("symbolic_again_counts.json"),
        [*against("rloo", "trained", "frozen", "uniform", "ucb"), ("trained", "frozen"), ("trained", "uniform")],
    ),
    Study(
        "Symbolic proposers: the paper's settings",
        "symbolic.md",
        lambda: counts("symbolic_paper_counts.json"),
        SYMBOLIC,
    ),
    Study(
        "Critic-Discernment Game",
        "critic_game.md",
        lambda: printed("critic", "critic_study.json", but=("cdg_1",)),
        right="majority@8",
    ),
    Study(
        "Critic-Discernment Game: four numbers",
        "critic_game.md",
        lambda: rates("critic_four_study.json"),
        [*against("start", "cdg_1", "cdg", "expert_iteration"), ("cdg", "expert_iteration")],
        ("pass@1", "majority@8"),
        right="majority@8",
    ),
    Study("SGS: 320 targets", "sgs.md", lambda: targets("sgs_study.json"), SGS, ("solved",), "solved"),
    Study(
        "SGS: harder targets",
        "sgs.md",
        lambda: targets("sgs_hard_study.json"),
        HARD,
        ("solved",),
        "solved",
    ),
    Study(
        "SGS: steps of 32 trained sequences",
        "sgs.md",
        lambda: targets("sgs_steps_of_32.json"),
        OF_32,
        ("solved", "solved, equal attempts"),
        "solved, equal attempts",
    ),
    Study("SGS: solvers at the end", "sgs.md", lambda: printed("sgs_solvers"), right="pass@64"),
    Study("Too easy problems", "too_easy.md", too_easy, (), drawn=False),
)
