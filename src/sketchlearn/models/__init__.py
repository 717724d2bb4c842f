"""Parametric distributions and their sketches."""

from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import Double, FrequencySet, Single
from sketchlearn.models.gaussian_family import (
    DiagonalGaussian,
    Dirac,
    FullGaussian,
    KnownGaussian,
    SphericalGaussian,
    StretchedGaussian,
    TiedDiagonalGaussian,
    TiedGaussian,
)
from sketchlearn.models.mixture_value import Mixture
from sketchlearn.models.stable_family import IndependentStable, SymmetricStable

__all__ = [
    "DiagonalGaussian",
    "Dirac",
    "Double",
    "FrequencySet",
    "FullGaussian",
    "IndependentStable",
    "KnownGaussian",
    "Mixture",
    "Model",
    "Single",
    "SphericalGaussian",
    "StretchedGaussian",
    "SymmetricStable",
    "TiedDiagonalGaussian",
    "TiedGaussian",
]
