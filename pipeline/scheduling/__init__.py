"""Scheduling: pure functions of state and time passed in. No Kafka, no clock, no randomness."""
