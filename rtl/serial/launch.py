"""The work distributor of the serial machine: it reads beats, has counters in block RAM, and no
table of slots."""

from rtl.launch import Distributor
from rtl.launch.descriptor import BeatDescriptorMemory
from rtl.launch.plan import WalkedGridPlan
from rtl.launch.references import SlowReferenceCounters
from rtl.launch.starter import WarpStarter
from rtl.launch.unit import DistributorParts
from rtl.params import SmParams

__all__ = ["SerialDistributor"]


class SerialDistributor(Distributor):
    """A Distributor of small and slow parts, with one more port.

    Members
    -------
    port : Out(BeatPort)
    bank : Out(Event of described_bank)
        The constant banks of the grid that is about to run, one by one.

    All others are as Distributor describes them.
    """

    def make_parts(self, params: SmParams) -> DistributorParts:
        return DistributorParts(
            BeatDescriptorMemory(params), WalkedGridPlan(params),
            WarpStarter(params, places_are_found_late=True), SlowReferenceCounters(params))
