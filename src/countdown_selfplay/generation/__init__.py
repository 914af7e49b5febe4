"""What samples a round's completions: the trained model, Transformers' continuous batching, or vLLM."""

from .base import Sampler
from .choose import make_sampler

__all__ = ["Sampler", "make_sampler"]
