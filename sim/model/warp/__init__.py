"""The warp model: warps with active masks and a call/return stack; one instruction retires at a
time.

==============  ======================================================================
module          content
==============  ======================================================================
model           the model itself: CTA launch, warp scheduling, fetch, errors
state           a warp's and a CTA's state
stack, unwind   tokens on chip and in memory; threads that leave, and the unwind
decode, action  from a word to its action
flow            branches, calls, pushes, stack pointers
barriers        CTA barriers
traps           which warps enter the trap handler, pause and leave, by
                ``trap_state`` and ``trap_frame``
error_status    the error status for the host
host            the registers with which a host reads and stops the machine
transfer        loads, stores, atomic operations, over the address spaces of ``spaces``
bounds          accesses outside the memory that a program was given
system          special registers, shuffles, breakpoints
compute         all other instructions, by the vector operations of ``vector``
==============  ======================================================================
"""
