"""The work distributor: it reads a launch descriptor, starts the warps of the grid, and releases
their slots when they have terminated.

::

    start: the descriptor's address
      |
      v
    DescriptorMemory ---> GridPlan ----------------> WarpStarter ---> warp_launch, thread_index,
      reads the           checks the grid;             ^   |          rows and shared memory to
      descriptor,         divides registers,           |   |          clear, flow_launch
      writes the          local and shared      a free |   | take
      release             memory among slots      slot |   v
                                                     SlotKeeper <--- warp_exit, drained
                                                           |
                                                           | CTA started, CTA finished
                                                           v
                                                     ReferenceCounters

One grid runs at a time. Its CTAs start in order: x is counted first, then y, then z. A CTA starts
when a CTA slot and enough warp slots are free, so a grid larger than the machine runs in several
waves. A CTA takes the lowest free CTA slot, and each of its warps the lowest free warp slot.

**Slots.** What a warp has in registers and memory is a function of its slot. All slots of a grid
have the same size, which the descriptor determines (ours):

- A warp slot has as many consecutive rows of the register file as a thread has registers, rounded
  up to a multiple of 8.
- A warp slot has a block of local memory: that of its 32 threads, followed by the warp's
  call/return stack.
- A CTA slot has a piece of shared memory, whose size is a multiple of 256 bytes.

The plan computes how many warp slots and CTA slots fit; the grid uses no others.

**Start of a warp.** First, ``launch`` announces the warp to all units. In the next 32 cycles,
``thread`` sends the indices of its threads, one a cycle; at the same time ``clear_rows`` requests
that its registers become 0. Last, when these registers and the CTA's shared memory are clear,
``flow`` hands the warp to the flow unit, whose result is the warp's first pc and active mask.

**End of a CTA.** A CTA is finished when all its warps have started and terminated, and none of them
has anything in flight. Then its slots are free.

**Reference counters** (ours, where the public pages only say that they throttle CTAs). There are
64, of 16 bits, which the host can read and set. A CTA of a grid with
CWD_REFERENCE_COUNT_INCR_ENABLE starts only if the sum of its counter and the delta is at most
65,535; it adds the delta. A finished CTA of a grid with CWD_REFERENCE_COUNT_DECR_ENABLE subtracts
the delta, unless one of its threads has executed EXIT.KEEPREFCOUNT; the least value is 0. To allow
n CTAs with a delta of 1 at a time, software sets the counter to 65,535 - n.

**At the end** of the grid RELEASE0_PAYLOAD is written to memory, if the descriptor enables that: as
one word, or as the first of four words whose others are 0 (ours: there is no clock that a time
stamp could be read from).

The serial machine has smaller and slower forms of some parts; see
:meth:`.unit.Distributor.make_parts`.

===========  ===================================================================
module       content
===========  ===================================================================
descriptor   reads the descriptor, writes the release; for lines, or for beats
plan         checks the grid, divides the machine; places stored, or recomputed
slots        which slots are free, and which CTA is finished
starter      starts the warps of a CTA, one at a time
references   the reference counters: in LUTs, or in block RAM
unit         connects the parts; the state machine of a grid
===========  ===================================================================
"""

from .unit import LAUNCH_TAG_BITS, Distributor

__all__ = ["LAUNCH_TAG_BITS", "Distributor"]
