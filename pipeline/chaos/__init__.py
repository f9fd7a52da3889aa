"""Faults on purpose, and an audit that trusts nothing of the agents."""
