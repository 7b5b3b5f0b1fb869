"""Demangled names of kernels."""

import pytest

from sim.cuda.names import readable, with_readable_kernels


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("add", "add"),
        ("_Z3addPfS_", "add"),
        ("_ZL3addPf", "add"),
        ("_ZN5tools5sumUpEPf", "tools.sumUp"),
        ("_ZN12_GLOBAL__N_13addEv", "_GLOBAL__N_1.add"),
        ("_ZN6cudapy8__main__3addB2v1Ex", "__main__.add"),
        ("_ZN6cudapy8__main__4make12_3clocals_3e3addE", "__main__.make.add"),
        ("_Zebra", "_Zebra"),
    ],
)
def test_a_mangled_name_is_shown_as_the_names_that_it_is_nested_in(name, shown):
    assert readable(name) == shown


def test_a_long_name_is_cut_unless_the_full_name_is_requested():
    assert readable("k" * 100) == "k" * 39 + "…"
    assert readable("k" * 100, None) == "k" * 100


def test_a_message_names_kernels_as_the_table_does():
    message = "PTX: kernel _Z3addPf takes no parameters, as _Z3addPf does"
    assert with_readable_kernels(message) == "PTX: kernel add takes no parameters, as _Z3addPf does"
