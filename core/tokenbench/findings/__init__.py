"""The matrix of tokens per correct answer, its statistics, results.json and report.md."""
