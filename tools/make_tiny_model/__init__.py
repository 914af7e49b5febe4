"""What made the model in src/countdown_selfplay/tiny/weights; docs/tiny_model.md says how. Not part of the wheel."""
