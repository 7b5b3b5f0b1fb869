"""Images that other people's compilers handed to the CUDA driver, recorded: see README.md."""
