"""The same tasks in the words of OpenAI's API, so that its clients work unchanged."""
