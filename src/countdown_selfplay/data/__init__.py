"""From files and data sets to problems, and the files of a run folder."""
