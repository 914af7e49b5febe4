"""What the published figures allow to say with the interval over few training seeds that docs/evaluation.md describes.

    python benchmarks/restate_intervals.py docs/benchmarks/study_*.json docs/benchmarks/*counts*.json

A file of counts (right answers per problem and seed) is compared anew. A file that holds only intervals, of the
bootstrap that drew seeds, says how wide the corrected one can be at most: if all of its width came from seeds, it
would be sqrt(S / (S - 1)) t / z times as wide (1.58 for 5 seeds), t with S - 1 degrees of freedom (Welch's are never
fewer). A difference whose interval excludes 0 even then stands; one whose interval excluded 0 and may not is open
until it is run again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from countdown_selfplay.evaluation.compare.arms import read_counts
from countdown_selfplay.evaluation.compare.comparison import compare_arms
from countdown_selfplay.statistics.bootstrap import Z_95
from countdown_selfplay.statistics.seeds import t_quantile


def widest(one: dict[str, Any], seeds: int) -> tuple[float, float]:
    """Both ends of a published interval of a difference, as far out as the correction can move them."""
    factor = (seeds / (seeds - 1)) ** 0.5 * float(t_quantile(0.975, seeds - 1)) / Z_95
    value = one["difference"]
    return value - factor * (value - one["low"]), value + factor * (one["high"] - value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    print("| file | difference | published | at most, or corrected | |\n|---|---|---|---|---|")
    for path in parser.parse_args().files:
        found = json.loads(path.read_text())
        known = "arms" in found
        tables = [compare_arms(read_counts(path)).to_dict()] if known else [t for t in found.values() if "arms" in t]
        for table in tables:
            least = min(table["training_seeds"].values())
            for one in table["differences"]:
                published = one["percentile"]
                low, high = (published["low"], published["high"]) if known else widest(published, least)
                words = "stands" if low > 0 or high < 0 else "holds 0" if known else "open"
                if not known and published["low"] <= 0 <= published["high"]:
                    words = "held 0 before"
                name = f"{one['arm']} minus {one['minus']}, pass@{one['k']}"
                before = "" if known else f"[{published['low']:+.3f}, {published['high']:+.3f}]"
                value = f"{published['difference']:+.3f}"
                print(f"| {path.stem} | {name}: {value} | {before} | [{low:+.3f}, {high:+.3f}] | {words} |")


if __name__ == "__main__":
    main()
