"""Trainer callbacks: clip per role and the round's end, collapse guard, run folder, SIGTERM, progress bar."""
