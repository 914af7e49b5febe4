"""Correct answers out of 16 on the 50 public test problems, for two public checkpoints (seed 001's setting)."""

_SFT = "9 7 8 11 3 12 0 0 2 8 10 0 2 10 8 6 1 5 1 14 3 0 0 2 9 8 7 9 11 7 0 9 0 6 6 0 9 0 13 8 5 0 0 0 4 7 11 0 7 8"
_IPO = (
    "14 8 6 11 4 5 0 0 2 11 11 0 0 8 5 4 2 7 0 13 7 0 0 9 12 8 6 7 13 15 0 6 0 7 5 0 12 0 13 7 6 0 2 0 2 13 10 2 9 5"
)

SFT = tuple(map(int, _SFT.split()))
IPO = tuple(map(int, _IPO.split()))
