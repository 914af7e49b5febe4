"""Reference proposers: oracles that know the learning value of problems, and bandits over rungs."""
