"""Figures that the project reports: each module measures one thing and gives a table of rows."""
