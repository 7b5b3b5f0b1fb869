"""Tests of the code that drives and observes the machine in simulation; most replace the machine by
a fake.
"""
