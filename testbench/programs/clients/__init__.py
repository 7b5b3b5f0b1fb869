"""Images that third-party compilers passed to the CUDA driver, recorded: see README.md."""
