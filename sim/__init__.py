"""Everything that runs the hardware: engines, models, toolchain, waveforms and the commands."""
