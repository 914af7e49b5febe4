"""What made the three models in src/countdown_selfplay/tiny/ladder; docs/tiny_model.md says how."""
