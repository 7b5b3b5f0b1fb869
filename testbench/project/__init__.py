"""Tests of the sources, the manual and the package."""
