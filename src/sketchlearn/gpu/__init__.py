"""Sketches on NVIDIA's GPUs: the same bits, through the driver alone."""

from sketchlearn.gpu.cell_plans import CellsPlan, ColumnCellsPlan, MixturePlan
from sketchlearn.gpu.chosen_columns import ColumnsPlan, DevicePlan
from sketchlearn.gpu.column_sums import CountsPlan, MomentsPlan
from sketchlearn.gpu.device_keeping import Search, gathered
from sketchlearn.gpu.device_rows import DeviceRows, device_rows, downloaded, host_rows, is_on_gpu
from sketchlearn.gpu.driver import NONE_BAD, Device, DeviceError, Event, Memory, Room, Stream, device, devices
from sketchlearn.gpu.feature_products import CrossPlan, FeatureMomentsPlan, FeatureWriter, packed_words
from sketchlearn.gpu.projections import LARGEST_TRANSFORM, DensePlan, PlannedWaves, StructuredPlan

__all__ = [
    "LARGEST_TRANSFORM",
    "NONE_BAD",
    "CellsPlan",
    "ColumnCellsPlan",
    "ColumnsPlan",
    "CountsPlan",
    "CrossPlan",
    "DensePlan",
    "Device",
    "DeviceError",
    "DevicePlan",
    "DeviceRows",
    "Event",
    "FeatureMomentsPlan",
    "FeatureWriter",
    "Memory",
    "MixturePlan",
    "MomentsPlan",
    "PlannedWaves",
    "Room",
    "Search",
    "Stream",
    "StructuredPlan",
    "device",
    "device_rows",
    "devices",
    "downloaded",
    "gathered",
    "host_rows",
    "is_on_gpu",
    "packed_words",
]
