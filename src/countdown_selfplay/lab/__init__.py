"""The laboratory, which measures and draws: arena, headroom, report, comparison, scaling fits, evaluations of critics,
and parts that no recipe of a paper names. The core imports none of it."""
