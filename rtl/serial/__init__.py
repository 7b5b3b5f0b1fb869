"""The serial machine: one lane, one instruction at a time; the smallest form of the machine.

It executes what every machine without floating point executes, with the same results, errors, traps
and stacks in memory; only cycles differ. Of all warps together one instruction is under way. So it has
no queues, no scoreboards, no stall counts, no buffers of warps, no bypasses, no coalescer and no miss
queue; state of warps and threads lies in block RAM, and a cycle processes one thread, one word or one
byte of it. Memory is accessed in beats of 64 bits. See docs/serial.md.

::

    fetch --> issue --> execute --> a unit, if it is not for the lane: memory, convert, flow (with crs),
      ^         ^                   barriers, traps
      |         `-- completion, or the flow result: the next instruction may be selected
      `-- redirect: one instruction is requested

A unit here has the ports of the unit of the same name of the pipelined machine, and is tested by the
same testbench. :mod:`rtl.machines` says which class stands for which unit; nothing else of the
hardware imports this package. It uses decoders, layouts and the barrier and trap units of the
pipelined machine.

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
crs         the call/return stack, whose spills and fills go beat by beat
==========  ====================================================================================
"""
