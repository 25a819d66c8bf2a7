"""Where the tokens of a run went: parts of its billed input, and how sure each is."""
