"""Headroom: whether a curriculum can pay. Four gates, measured in short runs of the settings."""
