"""What tests a game, a proposer, a guide or a domain of one's own without a model: a round whose texts a function
writes, on one process or on several."""

from .scripted import CountingDomain, ScriptedRound, in_ranks

__all__ = ["CountingDomain", "ScriptedRound", "in_ranks"]
