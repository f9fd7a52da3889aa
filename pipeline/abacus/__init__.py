"""A tiny arithmetic model whose mistakes are designed in, to see what a vote is worth where the truth is known."""
