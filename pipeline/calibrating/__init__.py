"""Fits the map from raw to true confidence on labelled results, and judges it. Needs the extra ``calibrate``."""
