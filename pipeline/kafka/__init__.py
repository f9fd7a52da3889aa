"""Kafka: wire formats, topics, the fenced sink, the transactional runner, dead letters, a local broker."""
