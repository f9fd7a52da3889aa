"""The page: the pipeline as a live picture, tasks and their answers taken apart. Server-rendered; htmx enhances it."""
