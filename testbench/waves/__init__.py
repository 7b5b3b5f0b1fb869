"""Tests of waveforms, their pictures and save files."""
