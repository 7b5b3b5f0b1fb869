"""The warp model: warps with active masks and a call/return stack, one retired instruction after the other.

==============  ======================================================================
module          content
==============  ======================================================================
model           the whole of it: CTAs into slots, which warp is next, fetch, errors
state           a warp's and a CTA's state
stack, unwind   tokens on chip and in memory; threads that leave, and the unwind
decode, action  from a word to what it does
flow            branches, calls, pushes, stack pointers
barriers        CTA barriers
traps           which warps enter the trap handler, pause and leave, by
                ``trap_state`` and ``trap_frame``
error_status    the error status for the host
host            the registers by which a host reads and stops the machine
transfer        loads, stores, atomic operations, over the address spaces of ``spaces``
bounds          accesses outside of what a program was given
system          special registers, shuffles, breakpoints
compute         everything else, by the vector operations of ``vector``
==============  ======================================================================
"""
