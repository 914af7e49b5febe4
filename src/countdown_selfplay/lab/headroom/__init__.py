"""Can a curriculum pay here? Four gates, each measured in short runs of the settings that are asked about."""
