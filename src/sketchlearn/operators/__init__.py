"""Operators: what one record contributes to a sketch."""

from sketchlearn.operators.cell_sums import CellSums
from sketchlearn.operators.composed_operators import Concatenated, concatenate
from sketchlearn.operators.convolutional import ConvolutionalFeatures
from sketchlearn.operators.crosses import CrossFeatures
from sketchlearn.operators.cumulants import CumulantFeatures
from sketchlearn.operators.expected_statistics import ExpectedStatistics
from sketchlearn.operators.feature_moments import FeatureMoments
from sketchlearn.operators.fourier import FourierFeatures
from sketchlearn.operators.histograms import Histograms
from sketchlearn.operators.moment_operators import ColumnMoments, SecondMoments, VeroneseMoments
from sketchlearn.operators.operator_base import Operator
from sketchlearn.operators.quadratic import QuadraticFeatures
from sketchlearn.operators.some_columns import SomeColumns
from sketchlearn.operators.some_directions import SomeDirections

__all__ = [
    "CellSums",
    "ColumnMoments",
    "Concatenated",
    "ConvolutionalFeatures",
    "CrossFeatures",
    "CumulantFeatures",
    "ExpectedStatistics",
    "FeatureMoments",
    "FourierFeatures",
    "Histograms",
    "Operator",
    "QuadraticFeatures",
    "SecondMoments",
    "SomeColumns",
    "SomeDirections",
    "VeroneseMoments",
    "concatenate",
]
