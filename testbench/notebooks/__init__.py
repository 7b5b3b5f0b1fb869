"""Notebooks of the manual: executed without Jupyter, and kept with what their cells show."""
