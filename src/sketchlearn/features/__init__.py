"""Features: what one record contributes to a sketch."""

from sketchlearn.features import frequencies, waves
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.composed import Concatenated, SomeColumns, concatenate
from sketchlearn.features.convolutional import ConvolutionalFeatures
from sketchlearn.features.cumulants import CumulantFeatures
from sketchlearn.features.directions import SomeDirections
from sketchlearn.features.expected_statistics import ExpectedStatistics
from sketchlearn.features.families import Cells, Fourier, Moments
from sketchlearn.features.fourier import FourierFeatures, MeasuredWave, measured_wave
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.moments import ColumnMoments, SecondMoments, VeroneseMoments
from sketchlearn.features.products import CrossFeatures, FeatureMoments
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.sketch.bits import PackedBits

__all__ = [
    "CellSums",
    "Cells",
    "ColumnMoments",
    "Concatenated",
    "ConvolutionalFeatures",
    "CrossFeatures",
    "CumulantFeatures",
    "ExpectedStatistics",
    "FeatureMoments",
    "Fourier",
    "FourierFeatures",
    "Histograms",
    "MeasuredWave",
    "Moments",
    "PackedBits",
    "QuadraticFeatures",
    "SecondMoments",
    "SomeColumns",
    "SomeDirections",
    "VeroneseMoments",
    "concatenate",
    "frequencies",
    "measured_wave",
    "waves",
]
