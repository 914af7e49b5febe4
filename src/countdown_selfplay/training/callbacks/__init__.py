"""Trainer callbacks: end of a round, collapse guard, run folder, SIGTERM, progress bar."""
