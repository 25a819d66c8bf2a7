"""The claude CLI: how it is started, what it announces, how its stream is read."""
