"""Waveforms, their pictures and save files."""
