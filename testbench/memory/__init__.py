"""The memory unit, and what warps may see of each other's accesses."""
