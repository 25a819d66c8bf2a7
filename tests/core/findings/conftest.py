"""Experiments that are made up on disk, for all tests here."""

from fabricating import fabricate, no_power_cuts

__all__ = ["fabricate", "no_power_cuts"]
