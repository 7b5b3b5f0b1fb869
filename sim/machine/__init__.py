"""The whole machine in simulation, and what a host sees of it, wherever it is.

======================  ==============================================================================================
module                  content
======================  ==============================================================================================
base                    a machine as a host drives it: registers, launches, results
host                    what a driver of the host sees: registers by name, memory, time
hardware                the hardware in simulation, with its lockstep and its waveform
harness                 the hardware with memory behind its port
traces                  what a waveform of it shows
memory_...              memory behind a port: with any latency, stalls and order; for long runs
retirement_events       the events that tell of instructions
lockstep                instructions of the hardware beside those of the warp model, in an order
hardware_instructions   an instruction of the hardware, of its events
comparison              what both have done of an instruction, and in memory
warp_state              masks and stack of a warp
timeline                what every warp did in every cycle
diagnosis               why warps do not go on
======================  ==============================================================================================
"""
