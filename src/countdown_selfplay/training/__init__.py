"""The trainer and what makes a round of it: play, credit, losses, checkpoints, rollbacks."""
