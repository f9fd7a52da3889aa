"""What a gateway knows of the topics: a view in SQLite, rebuilt from them whenever it is lost."""
