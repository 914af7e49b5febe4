"""Trainer of several roles: rounds, credit, losses, checkpoints and rollbacks."""
