"""The compiled kernels: which one runs, on processors and GPUs."""
