"""Everything true about an experiment: no terminal, no Textual, no Rich."""

__version__ = "0.1.0"
