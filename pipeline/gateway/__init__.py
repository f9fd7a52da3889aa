"""The front door: HTTP for people and services that do not speak Kafka."""
