"""Sending again what the pipeline has seen before."""
