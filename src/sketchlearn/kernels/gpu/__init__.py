"""Sketches on NVIDIA's GPUs: the same bits, through the driver alone."""

from sketchlearn.kernels.gpu.driver import DeviceError, device, devices

__all__ = ["DeviceError", "device", "devices"]
