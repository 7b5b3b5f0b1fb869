"""The serial machine: one lane, one instruction at a time; the smallest form of the machine.

It executes what every machine without floating point executes, with the same results, errors,
traps and stacks in memory; only cycles differ. Of all warps together one instruction is under way.
So it has no queues, no scoreboards, no stall counts, no buffers of warps, no bypasses, no coalescer
and no miss queue; state of warps and threads is in block RAM, and a cycle processes one thread, one
word or one byte of it. Memory is accessed in beats of 64 bits. See docs/serial.md.

::

    fetch --> issue --> execute --> the unit of an instruction that is not for the lane: memory,
      ^         ^                   convert, flow (with crs), barriers, traps
      |         `-- completion, or the flow result: the next instruction may be selected
      `-- redirect: one instruction is requested

A unit here has the ports of the pipelined machine's unit of the same name, and is tested by the
same testbench. :mod:`rtl.machines` chooses the class of each unit; nothing else of the hardware
imports this package. It uses decoders and layouts of the pipelined machine. Where a unit differs in
few steps it is a subclass that overrides the methods of these steps.

==========  ====================================================================================
module      content
==========  ====================================================================================
core        the units joined
fetch       one instruction for each redirect; one cache; the instruction table as a diagram
issue       one warp after another; waits for the end of what it has selected
execute     registers read one after another, threads one after another
lane        the lane: a byte of a thread's result a cycle
memory      a word of a thread at a time, by one adder
convert     conversions of integers and MUFU, a byte of a thread at a time
flow        control flow in passes over 32 threads
crs         the call/return stack, whose spills and fills move beat by beat
barrier     what differs in the barrier unit: threads are counted one by one, all barriers are used
trap        what differs in the trap unit: what failed is what was issued last
launch      what differs in the work distributor: beats, counters in block RAM, no tables of slots
host        what differs in the host's registers: counters by words
errors      the errors of the instruction under way, or of a stack; the error status
==========  ====================================================================================
"""
