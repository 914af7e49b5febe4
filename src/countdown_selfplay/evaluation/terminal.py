"""Plain-text tables for the terminal."""

from __future__ import annotations

from typing import Any


def before_after_table(result: dict[str, Any]) -> str:
    """Prover and conjecturer before and after training, with 95% intervals; `result` as in evaluation.json."""
    rows: list[tuple[str, ...]] = [("", "before", "after", "difference")]
    before, after = result["before"], result["after"]
    for k, estimate in before.get("prover", {}).get("pass_at", {}).items():
        difference = "{:+.3f} [{:+.3f}, {:+.3f}]".format(*result["difference"][f"pass@{k}"])
        rows.append((f"prover pass@{k}", _estimate(estimate), _estimate(after["prover"]["pass_at"][k]), difference))
    figures = [found.get("conjecturer", {}) for found in (before, after)]
    for name in rates(*figures):
        rows.append((f"conjecturer {name.replace('_', ' ')}", *(_estimate(found.get(name)) for found in figures), ""))
    return aligned(rows if "difference" in result else [row[:3] for row in rows])


def rates(*figures: dict[str, Any]) -> list[str]:
    """Names of the estimates in conjecturers' figures, in their order."""
    return list(dict.fromkeys(n for found in figures for n, v in found.items() if isinstance(v, dict) and "low" in v))


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Columns padded to their widest cell; a rule under the header."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def _estimate(value: Any) -> str:
    if value is None:
        return "-"
    center, low, high = (value["value"], value["low"], value["high"]) if isinstance(value, dict) else value
    return f"{center:.3f} [{low:.3f}, {high:.3f}]"
