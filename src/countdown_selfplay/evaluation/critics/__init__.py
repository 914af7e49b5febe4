"""The evaluations of the Critic-Discernment Game's paper: stepwise error detection, self-correction, win rates between
iterations (Wang et al. 2025, sections 4.2, 4.3 and 5.4). NumPy alone at import; what samples loads torch on first
use."""
