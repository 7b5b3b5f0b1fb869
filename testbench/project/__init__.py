"""The sources, the manual and the package themselves."""
