"""What drives and observes the machine in simulation, without the machine itself."""
