"""Parametric distributions and their sketches."""

from sketchlearn.models.dirac import Dirac
from sketchlearn.models.frequency_set import FrequencySet
from sketchlearn.models.gaussian import (
    DiagonalGaussian,
    FullGaussian,
    KnownGaussian,
    SphericalGaussian,
    TiedDiagonalGaussian,
    TiedGaussian,
)
from sketchlearn.models.mixture import Mixture
from sketchlearn.models.model import Model
from sketchlearn.models.stable import IndependentStable, SymmetricStable
from sketchlearn.models.stretched import StretchedGaussian

__all__ = [
    "DiagonalGaussian",
    "Dirac",
    "FrequencySet",
    "FullGaussian",
    "IndependentStable",
    "KnownGaussian",
    "Mixture",
    "Model",
    "SphericalGaussian",
    "StretchedGaussian",
    "SymmetricStable",
    "TiedDiagonalGaussian",
    "TiedGaussian",
]
