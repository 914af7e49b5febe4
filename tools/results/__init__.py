"""What docs/results/ computes from docs/benchmarks/: `python -m tools.results`."""
