"""The work distributor: from a launch descriptor to warps that run, until the last one has ended.

::

    start, the descriptor's address
      |
      v
    DescriptorMemory ---> GridPlan ----------------> WarpStarter ---> warp_launch, thread indices,
      reads it,           does it fit? how many        ^   |          cleared registers and shared
      writes the          warps, CTAs, and where       |   v          memory, flow_launch
      release             everything of a slot is    SlotKeeper <--- warps that end, and have
                                                       |   ^         nothing under way
                                                       v   | may a CTA start?
                                                     ReferenceCounters

One grid runs at a time. Its CTAs start in order, x first, then y, then z, each as soon as there is
room for it: a grid larger than the machine runs in waves. A CTA takes the lowest free CTA slot and
the lowest free warp slots.

Everything of a warp follows from its slot. Slots are as large as the grid needs them: the registers
of a thread rounded up to a multiple of 8 are so many rows of the register file, and a warp's block
of local memory is that of its 32 threads with its stack behind. Likewise shared memory is divided
among CTA slots in pieces of a multiple of 256 bytes. So the grid decides how many slots can be used
(ours).

A warp starts in this order: all units hear of it (``warp_launch``); its threads' places in the
block are sent, one a cycle, while its registers are marked as cleared; when its CTA's shared memory
is clear, too, the flow unit gets it, and the result is the warp's first pc.

A CTA is over when all its warps have terminated and nothing of them is under way any more. Then its
slots are free.

**Reference counters** (ours, where the public pages only say that they throttle CTAs). There are
64, of 16 bits, which the host can read and set. A CTA of a grid with
CWD_REFERENCE_COUNT_INCR_ENABLE starts only if its counter can take the delta without passing
65,535, and adds it. A CTA of a grid with CWD_REFERENCE_COUNT_DECR_ENABLE takes it away again when
it is over, unless a thread has left by EXIT.KEEPREFCOUNT; a counter stops at 0. Software that has n
places to give sets the counter to 65,535 - n.

**At the end** RELEASE0_PAYLOAD goes to memory, if the descriptor says so: as one word, or as the
first of four of which the others are 0 (ours: there is no clock to tell the time).

A serial machine has smaller and slower forms of some parts, which :mod:`.unit` chooses.

===========  ===================================================================
module       content
===========  ===================================================================
descriptor   reading the descriptor, writing the release: by lines, or by beats
plan         whether the grid fits, and what each slot has: stored, or walked to
slots        which slots are free, and when a CTA is over
starter      a CTA's start, warp by warp
references   the reference counters: in LUTs, or in block RAM
unit         the course of a grid
===========  ===================================================================
"""

from .unit import LAUNCH_TAG_BITS, Distributor

__all__ = ["LAUNCH_TAG_BITS", "Distributor"]
