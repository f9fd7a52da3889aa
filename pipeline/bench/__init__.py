"""Measurements: each compares what it measures side by side in one run, on a Kafka of its own."""
