"""What a run will need, before it starts: memory per device, and the dry run."""
