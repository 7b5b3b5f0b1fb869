"""The whole machine in simulation, and a host's view of it, in simulation or on a board.

======================  ==============================================================================================
module                  content
======================  ==============================================================================================
base                    a machine as a host drives it: registers, launches, results
host                    a driver's view: registers by name, memory, time
hardware                the hardware in simulation, with its lockstep and its waveform
harness                 the hardware with memory behind its port
traces                  what a waveform of it shows
memory_...              memory behind a port: with any latency, stalls and order; for long runs
retirement_events       the events of instructions
lockstep                the hardware's instructions compared with the warp model's, in an order
hardware_instructions   an instruction of the hardware, of its events
comparison              what both have done of an instruction, and in memory
warp_state              masks and stack of a warp
timeline                what every warp did in every cycle
diagnosis               why warps do not continue
======================  ==============================================================================================
"""
