"""vLLM's LLM as the roles share it: one LoRA request per turn, and a sleep that keeps what nobody would push again."""

from __future__ import annotations

from typing import Any


class SharedEngine:
    """Differs from vLLM's LLM in that `generate` sends `lora_request` along, and that with `keep_weights` a sleep
    moves the weights to the CPU (level 1) where TRL asks for them to be dropped (level 2)."""

    def __init__(self, llm: Any, keep_weights: bool) -> None:
        self.llm, self.keep_weights = llm, keep_weights
        self.lora_request: Any = None

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        return self.llm.generate(*args, lora_request=self.lora_request, **kwargs)

    def sleep(self, level: int = 1) -> None:
        self.llm.sleep(level=1 if self.keep_weights else level)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.llm, name)
