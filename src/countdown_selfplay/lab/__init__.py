"""Laboratory: arena, headroom, report, comparison, scaling fits, evaluations of critics, and parts that no recipe of a
paper uses. The core imports none of it."""
