"""The hardware: Amaranth components, and the machine language they run.

Nothing here imports a simulator.
"""
