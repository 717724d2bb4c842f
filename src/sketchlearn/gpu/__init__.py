"""Sketches on NVIDIA's GPUs: the same bits, through the driver alone."""

from sketchlearn.gpu.column_sums import CountsPlan, MomentsPlan
from sketchlearn.gpu.device_keeping import Search, gathered
from sketchlearn.gpu.device_rows import DeviceRows, device_rows, downloaded, host_rows, is_on_gpu
from sketchlearn.gpu.driver import Device, DeviceError, Event, Memory, Stream, device, devices
from sketchlearn.gpu.projections import DensePlan

__all__ = [
    "CountsPlan",
    "DensePlan",
    "Device",
    "DeviceError",
    "DeviceRows",
    "Event",
    "Memory",
    "MomentsPlan",
    "Search",
    "Stream",
    "device",
    "device_rows",
    "devices",
    "downloaded",
    "gathered",
    "host_rows",
    "is_on_gpu",
]
