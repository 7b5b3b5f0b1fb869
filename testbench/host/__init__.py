"""The host's registers."""
