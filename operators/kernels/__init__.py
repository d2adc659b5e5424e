"""Numba kernels over NumPy and Arrow buffers: generic, few, compiled once and cached on disk."""
