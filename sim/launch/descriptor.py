"""A launch in the hardware's form: constant banks and launch descriptor in memory."""

from rtl.isa.qmd import QMD_BYTES, descriptor
from rtl.layouts import CONSTANT_BANKS
from sim.launch import BANK_ALIGNMENT, Launch, bank_name
from sim.launch.memory import Memory
from sim.toolchain.module import ProgramError

__all__ = ["place_descriptor"]


def place_descriptor(launch: Launch, memory: Memory) -> int:
    """Writes the launch descriptor, and the banks that are not in memory yet, to ``memory``;
    returns the descriptor's address.

    Raises ProgramError if a field of the descriptor is too small.
    """
    if max(launch.banks, default=0) >= CONSTANT_BANKS:
        raise ProgramError(
            f"kernel {launch.kernel.name}: constant bank {max(launch.banks)}; a launch descriptor has "
            f"{CONSTANT_BANKS}"
        )
    addresses, sizes = [0] * CONSTANT_BANKS, [0] * CONSTANT_BANKS
    for number, content in launch.banks.items():
        content += bytes(-len(content) % 4)
        sizes[number] = len(content)
        if number in launch.bank_addresses:
            addresses[number] = launch.bank_addresses[number]
        else:
            addresses[number] = memory.allocate(bank_name(number), len(content), BANK_ALIGNMENT)
            memory.mark_constant(addresses[number])
            memory.write(addresses[number], content)
    grid, block = launch.grid, launch.block
    content = descriptor(
        {
            "PROGRAM_OFFSET": launch.entry,
            "CTA_RASTER_WIDTH": grid[0],
            "CTA_RASTER_HEIGHT": grid[1],
            "CTA_RASTER_DEPTH": grid[2],
            "CTA_THREAD_DIMENSION0": block[0],
            "CTA_THREAD_DIMENSION1": block[1],
            "CTA_THREAD_DIMENSION2": block[2],
            "SHARED_MEMORY_SIZE": launch.shared,
            "BARRIER_COUNT": launch.barriers,
            "REGISTER_COUNT": launch.registers,
            "SHADER_LOCAL_MEMORY_LOW_SIZE": launch.local,
            "SHADER_LOCAL_MEMORY_CRS_SIZE": launch.crs,
            "API_VISIBLE_CALL_LIMIT": int(not launch.check_api_calls),
            "CONSTANT_BUFFER_VALID": [
                int(number in launch.banks) for number in range(CONSTANT_BANKS)
            ],
            "CONSTANT_BUFFER_ADDR_LOWER": [address & 0xFFFF_FFFF for address in addresses],
            "CONSTANT_BUFFER_ADDR_UPPER": [address >> 32 for address in addresses],
            "CONSTANT_BUFFER_SIZE": sizes,
        }
    )
    address = memory.allocate("launch descriptor", QMD_BYTES, QMD_BYTES)
    memory.mark_constant(address)
    memory.write(address, content)
    return address
