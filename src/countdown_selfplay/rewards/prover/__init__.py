"""Rewards of the prover: TRL reward callables on the exact verifier."""
