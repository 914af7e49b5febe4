"""Folders of models that recipes start from and that do not ship, with the command that makes each."""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError

CDG, POOL, SGS = Path("runs/tiny-cdg-start"), Path("runs/pool-start"), Path("runs/tiny-sgs")
"""What `--prepare` of cdg, pool and sgs fills."""

STARTS = {
    str(POOL): "run: countdown-selfplay pool --prepare",
    f"{SGS}/guide": "run: countdown-selfplay sgs --prepare --recipe tiny/sgs_judge",
    f"{SGS}/conjecturer_steps": "run: countdown-selfplay sgs --prepare --recipe tiny/sgs_32",
    f"{SGS}/stp_conjecturer": "run: countdown-selfplay sgs --prepare --recipe tiny/sgs_stp",
    str(SGS): "run: countdown-selfplay sgs --prepare",
    "runs/qwen-sgs": "`countdown-selfplay sft --recipe qwen2.5-0.5b/sft_sgs_guide` makes the guide, and "
    "`countdown-selfplay dataset runs/qwen-sgs/targets.jsonl --count 512 --operands 4 --target_low 1 --hard_for "
    "Qwen/Qwen2.5-0.5B-Instruct` the targets",
    str(CDG): "run: countdown-selfplay cdg --prepare",
}
"""Folder -> the command that makes it; a folder precedes the one that it lies in."""


def check_starts(*names: str | None) -> None:
    """Raise ConfigError for the first model or data set of a run that belongs to a folder of STARTS and does not exist
    yet."""
    for name in filter(None, names):
        place = Path(name)
        made_by = next((made for start, made in STARTS.items() if Path(start) in (place, *place.parents)), None)
        whole = any((place / file).exists() for file in ("config.json", "adapter_config.json"))
        there = whole if place.is_dir() else place.exists()  # half a warm start is none
        if made_by is not None and not there:
            raise ConfigError(f"'{name}', which this run starts from, is not there yet; {made_by}.")
