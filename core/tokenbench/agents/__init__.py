"""One module an agent CLI: how to start it, what it announces, how to read what it prints."""
