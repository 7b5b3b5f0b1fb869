"""Testbenches: tb_<unit>.py for ``python -m sim.run_tb <unit>``, test_*.py for pytest, programs/ that both run."""
