"""What the parts of a run are to each other: games, proposers, domains, guides, and what they hand around."""
