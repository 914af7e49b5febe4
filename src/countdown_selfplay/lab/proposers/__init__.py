"""Proposers for measuring: oracles that know what a problem would teach, and bandits over rungs."""
