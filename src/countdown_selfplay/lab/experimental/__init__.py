"""Levers without promises: named "countdown_selfplay.lab.experimental.my_lever:MyLever" in a setting, with no page, no
panel, no engine matrix and no guarantee that a run resumes. One that is ahead of its placebo on ten seeds moves to its
shelf."""
