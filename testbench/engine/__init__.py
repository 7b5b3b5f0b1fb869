"""Both simulation engines."""
