"""Generation backends, which sample a round's completions: the trained model, or vLLM."""
