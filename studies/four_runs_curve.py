"""How many answers the joint runs need for the pass@1 of plain RLOO (RQ1 of Allen and Ståblein: "6x fewer samples"):
runs of `four_runs.py` scored at their checkpoints.

    python studies/four_runs_curve.py --seeds 1 2 3                            # plays what is missing, scores, tells
    python studies/four_runs_curve.py --read docs/benchmarks/seed_001_curve.json     # the tables of a finished study

The paper sets answers of the prover at the end of a run against those of RLOO after 80 rounds. Here each curve is
read where it first reaches a level, between two checkpoints on a straight line: RLOO's own answers to its level after
30 and 80 rounds, those of the joint run of the same seed to that level, and the other way round, RLOO's to the level
that the joint run ends at. `fixed_problems` is the corrected run without its conjecturer: what is left of the
difference when batch, rates and number of updates are equal. Counts by problem go to --output.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from four_runs import RUNS, play
from many_runs import FINISHED, finish, finished

from countdown_selfplay.cli.main import as_program
from countdown_selfplay.statistics.pass_at_k import pass_at_k_array

JOINT = (20, 40, 60, 80, 100)
ARMS = {"rloo_80": (5, 10, 20, 30, 40, 60, 80), **dict.fromkeys(("anchored_shaped", "anchored_shaped_fixed"), JOINT)}
ARMS["fixed_problems"] = JOINT
"""Rounds that are scored; the last as the run itself was scored at its end. A round of RLOO has 1,024 answers, of the
others some 70 to 200."""
SAVED = {"rloo_80": 5}
"""Rounds between two checkpoints; of the others 10."""
BASELINE, LEVELS = "rloo_80", (30, 80)
PROBLEMS, ANSWERS = 512, 16
QUIET = ["--disable_tqdm", "true", "--report_to", "none"]
Curve = list[tuple[float, float]]
"""Answers in training and pass@1, by round."""


def evaluated(folder: Path, step: int) -> dict[str, Any]:
    """The evaluation of a checkpoint, which is kept in the run's folder; one that is there is read."""
    from countdown_selfplay.countdown import CountdownDomain
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.evaluation.model import load_model

    file = f"scored-{step}.json"
    if not finished(folder, {}, file):
        model = load_model(str(folder / f"checkpoint-{step}" / "prover"), "cpu")
        domain, given = CountdownDomain.tiny(), {"n": ANSWERS, "ks": (1, 4, 16), "max_new_tokens": 16}
        finish(folder, evaluate_prover(*model, domain.held_out(PROBLEMS), domain, **given).to_dict(), file)
    return json.loads((folder / file).read_text())


def at_end(folder: Path, when: str) -> dict[str, Any]:
    """What the run's own evaluation says, `before` or `after` training, on the same problems."""
    return json.loads((folder / FINISHED).read_text())[when]["prover"]


def score(folder: Path, steps: Sequence[int]) -> dict[int, tuple[int, dict[str, Any]]]:
    """Of each of the steps the prover's answers until then, and its evaluation."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    answers = {line["step"]: line["prover/trained_samples"] for line in lines if "prover/trained_samples" in line}
    found = {}
    for step in steps:
        total = round(sum(count for at, count in answers.items() if at <= step))
        found[step] = total, at_end(folder, "after") if step == steps[-1] else evaluated(folder, step)
    return found


def write(path: Path, before: dict[str, Any], scored: dict[str, list[dict[int, tuple[int, dict[str, Any]]]]]) -> None:
    """The counts of all arms by seed as `ARM@STEP`, with the answers until then, as `write_counts` has them; and of
    the model that all start from as `before`."""
    arms, answers = {"before": [{"n": before["n"], "correct": before["correct"]}]}, dict[str, list[int]]()
    for arm, seeds in scored.items():
        for step in seeds[0]:
            own = [seed[step] for seed in seeds]
            arms[f"{arm}@{step}"] = [{"n": one["n"], "correct": one["correct"]} for _, one in own]
            answers[f"{arm}@{step}"] = [count for count, _ in own]
    record = {"setting": before["setting"], "problems": before["keys"], "arms": arms, "answers": answers}
    path.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


def curves(record: dict[str, Any], k: int = 1) -> dict[str, list[Curve]]:
    """By arm and seed, pass@k of a file of `write` over answers in training."""

    def rate(run: dict[str, Any]) -> float:
        return float(pass_at_k_array(run["correct"], run["n"], k).mean())

    first, found = (0, rate(record["arms"]["before"][0])), dict[str, list[Curve]]()
    for name, answers in record["answers"].items():
        runs = record["arms"][name]
        own = found.setdefault(name.partition("@")[0], [[first] for _ in runs])
        for curve, run, count in zip(own, runs, answers, strict=True):
            curve.append((count, rate(run)))
    return found


def answers_to(curve: Curve, level: float) -> float | None:
    """Answers at which a curve first reaches a level, on straight lines between its points; None if it never does.
    What is at the level from the start takes the answers of the first point."""
    if curve[0][1] >= level:
        return curve[0][0]
    for (before, low), (after, high) in pairwise(curve):
        if high >= level:
            return before + (after - before) * (level - low) / (high - low)
    return None


def at_round(record: dict[str, Any], arm: str, step: int) -> list[float]:
    """pass@1 of an arm after so many rounds, by seed."""
    return [float(pass_at_k_array(run["correct"], run["n"], 1).mean()) for run in record["arms"][f"{arm}@{step}"]]


def ratio(own: Sequence[float | None], control: Sequence[float | None]) -> str:
    """How many times fewer answers than the control's, the geometric mean over seeds with Student's 95% interval of
    the logarithms; or how many seeds get there."""
    from countdown_selfplay.lab.report.charts import over_seeds

    both = [(a, b) for a, b in zip(own, control, strict=True) if a and b]
    if len(both) < len(own):
        return "never reached" if not both else f"reached in {len(both)} of {len(own)} seeds"
    found = over_seeds([math.log(b / a) for a, b in both])
    return f"{math.exp(found.value):.2f} [{math.exp(found.low):.2f}, {math.exp(found.high):.2f}]"


def tables(record: dict[str, Any]) -> str:
    """Markdown: the curves, and the answers to each level."""
    ones, sixteens = curves(record), curves(record, 16)
    lines = ["| arm | round | thousand answers | pass@1, by seed | pass@16 |", "|---|---|---|---|---|"]
    for name, answers in record["answers"].items():
        arm, _, step = name.partition("@")
        place = 1 + [other for other in record["answers"] if other.startswith(f"{arm}@")].index(name)
        values = [curve[place][1] for curve in ones[arm]]
        mean, wide = np.mean(values), np.mean([curve[place][1] for curve in sixteens[arm]])
        by_seed = " ".join(f"{value:.3f}" for value in values)
        lines.append(f"| {arm} | {step} | {np.mean(answers) / 1000:.1f} | {mean:.3f} ({by_seed}) | {wide:.3f} |")
    lines += [
        "",
        "| arm | level | pass@1 | its thousand answers | RLOO's | times fewer |",
        "|---|---|---|---|---|---|",
    ]
    for arm, own in ones.items():
        if arm == BASELINE or len(own) != len(ones[BASELINE]):  # a level is that of RLOO with the same seed
            continue
        levels = {
            f"RLOO after {step} rounds": at_round(record, BASELINE, step)
            for step in LEVELS
            if f"{BASELINE}@{step}" in record["arms"]
        }
        levels["its own last"] = [curve[-1][1] for curve in own]
        for name, level in levels.items():
            ours, theirs = (
                [answers_to(curve, at) for curve, at in zip(of, level, strict=True)] for of in (own, ones[BASELINE])
            )
            told = (", ".join("never" if v is None else f"{v / 1000:.1f}" for v in of) for of in (ours, theirs))
            lines.append(f"| {arm} | {name} | {np.mean(level):.3f} | {' | '.join(told)} | {ratio(ours, theirs)} |")
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--output", type=Path, help="Default: FOLDER/four-runs-curve.json.")
    parser.add_argument("--read", type=Path, help="Tell of this file of counts alone.")
    options, flags = parser.parse_known_args(argv)
    if options.read:
        print(tables(json.loads(options.read.read_text())))
        return 0
    scored = dict[str, list[dict[int, tuple[int, dict[str, Any]]]]]()
    for arm in dict.fromkeys([BASELINE, *options.arms]):
        command, recipe, own = RUNS[arm]
        kept = ["--save_steps", f"{SAVED.get(arm, 10)}", "--save_total_limit", "100", *QUIET]
        for seed in options.seeds:
            folder = options.folder / f"tiny-{arm.replace('_', '-')}-seed-{seed}"
            play(command, recipe, folder, [*own, "--seed", f"{seed}", *kept, *flags])
            scored.setdefault(arm, []).append(score(folder, ARMS[arm]))
    output = options.output or options.folder / "four-runs-curve.json"
    start = options.folder / f"tiny-{BASELINE.replace('_', '-')}-seed-{options.seeds[0]}"
    write(output, at_end(start, "before"), scored)
    print(f"\n{tables(json.loads(output.read_text()))}\n\nCounts: {output}")
    return 0


if __name__ == "__main__":
    as_program(main)
