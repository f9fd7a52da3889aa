"""Delivery: signed callbacks that are retried until they arrive, and never go where they may not."""
