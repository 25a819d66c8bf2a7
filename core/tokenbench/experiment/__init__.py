"""What is to be measured: configuration, questions, arms, corpora, the plan of cells, the seal."""
