"""The work distributor: the short form of its testbench, and the table of descriptor fields."""

import random
from functools import partial

import pytest

from rtl.isa.qmd import QMD, QMD_BYTES, descriptor
from rtl.params import PRESETS
from testbench import simulation
from testbench.launch import tb_launch
from testbench.launch.driver import LaunchDriver

passes = partial(simulation.passes, "launch")


@pytest.mark.parametrize("preset", ["default", "least"])
@pytest.mark.parametrize(
    "check",
    [tb_launch.check_waves, tb_launch.check_references, tb_launch.check_rejections],
    ids=lambda c: c.__name__,
)
def test_agrees_with_a_plain_distributor(check, preset):
    passes(partial(check, preset=preset))


@pytest.mark.parametrize(
    ("preset", "seed"), [("tiny", 1), ("tiny", 2), ("tiny", 3), ("least", 4), ("least", 5)]
)
def test_random_grids_agree_with_a_plain_distributor(preset, seed):
    params = PRESETS[preset]

    def body(bench):
        grids = [tb_launch.random_grid(bench.random, params) for _ in range(2)]
        for grid in grids:
            LaunchDriver(bench, params, [grid], halts=0.01).run()

    passes(body, seed)


def test_fields_of_a_descriptor_do_not_overlap():
    taken = 0
    for field in QMD.values():
        for index in range(field.count):
            bits = (1 << field.width) - 1 << field.lowest(index)
            assert not taken & bits
            taken |= bits
    assert taken.bit_length() <= 8 * QMD_BYTES


def test_a_descriptor_holds_what_was_put_into_it():
    source = random.Random(0)
    values = {
        name: [source.getrandbits(field.width) for _ in range(field.count)]
        for name, field in QMD.items()
    }
    number = int.from_bytes(descriptor(values), "little")
    assert {
        name: [field.get(number, index) for index in range(field.count)]
        for name, field in QMD.items()
    } == values


def test_a_descriptor_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="0x10000 does not fit into 16 bits"):
        descriptor({"CTA_RASTER_HEIGHT": 1 << 16})
    with pytest.raises(IndexError, match="field 8 of 8"):
        descriptor({"CONSTANT_BUFFER_VALID": [0] * 9})
