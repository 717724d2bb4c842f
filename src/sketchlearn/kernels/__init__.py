"""The compiled kernels: which one runs, on processors and GPUs."""

try:
    import sketchlearn.kernels._native  # noqa: F401
except ModuleNotFoundError:
    raise ImportError(
        "sketchlearn is not built here: install it with pip from the folder of its sources, and start Python somewhere "
        "else"
    ) from None
