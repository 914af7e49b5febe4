"""Requirements of a run before it starts: memory per device, and the dry run."""
