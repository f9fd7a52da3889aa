"""What happens to a task while it runs, told to whoever listens."""
