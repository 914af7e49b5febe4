"""The embedded model: 0.65M parameters that play both roles on Countdown with three numbers, for laptops and tests.

Importing this package loads no torch; `load_tiny_model` does. docs/tiny_model.md says how the weights were made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..countdown import ProblemSpec

TINY_MODEL_PATH: Path = Path(__file__).parent / "weights"
"""Folder of the shipped weights and tokenizer:
`AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH))` works offline."""

TINY_SPEC: ProblemSpec = ProblemSpec(operands=(3,), number_low=1, number_high=12, target_low=1, target_high=99)
"""The problems the model was warm-started on, held-out side excepted: 3 numbers from 1 to 12, targets 1 to 99."""

__all__ = ["TINY_MODEL_PATH", "TINY_SPEC", "load_tiny_model"]


def load_tiny_model(path: Path | None = None) -> tuple[Any, Any]:
    """The shipped model (float32, evaluation mode) and its tokenizer, or those of the folder `path`; no network."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = str(TINY_MODEL_PATH if path is None else path)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype="float32")
    return model.eval(), AutoTokenizer.from_pretrained(folder, local_files_only=True)


def resolve_model(name: str | None) -> str:
    """Path or id of a model; "tiny" (and None) is the embedded one."""
    return str(TINY_MODEL_PATH) if name in (None, "tiny") else str(name)
