"""What made the two models in src/countdown_selfplay/tiny/ladder; docs/tiny_model.md says how."""
