"""Widgets drawn with the line API: they repaint the lines that changed and no others."""
