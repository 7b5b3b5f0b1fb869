"""The work distributor."""
