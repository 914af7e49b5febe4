"""Commands of the warm starts, one module each."""
