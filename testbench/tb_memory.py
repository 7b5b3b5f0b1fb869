"""The memory unit: registers, memory, shared memory and errors of every load, store, atomic operation and shuffle."""

from rtl.isa.errors import REPORT_MASK_RESET
from sim.memory_port import MemoryBehaviour
from sim.testbench import Bench
from testbench.memory_driver import MemoryDriver
from testbench.memory_random import random_world

__all__ = ["check_random", "run"]

ALL_REPORTED = 0x00FF_FFFF
HANDS_OFF = MemoryBehaviour(latency=(1, 1))
UNRULY = MemoryBehaviour(latency=(1, 30), interval=2, stall=0.2, reorder=True)


def check_random(bench: Bench) -> None:
    """Made-up instructions, compared one by one with the reference machine."""
    rounds, count = (60, 300) if bench.thorough else (4, 120)
    for number in range(rounds):
        mask = (ALL_REPORTED, REPORT_MASK_RESET, ALL_REPORTED, 0)[number % 4]
        world, registers = random_world(bench.random, count, mask)
        driver = MemoryDriver(bench, world, behaviour=(HANDS_OFF, UNRULY)[number % 2], idle=0.1 * (number % 3))
        driver.load(registers)
        driver.run()
        bench.checked("random instructions", driver.steps)


def run(bench: Bench) -> None:
    """The testbench."""
    for check in (check_random,):
        check(bench)
