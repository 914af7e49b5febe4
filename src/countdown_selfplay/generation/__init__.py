"""What samples a round's completions: the trained model, Transformers' continuous batching, or vLLM."""

from .base import Sampler, make_sampler

__all__ = ["Sampler", "make_sampler"]
