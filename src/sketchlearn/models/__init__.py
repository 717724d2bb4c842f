"""Parametric distributions and their sketches."""

from sketchlearn.models.dirac import Dirac
from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import FrequencySet
from sketchlearn.models.gaussian_family import (
    DiagonalGaussian,
    FullGaussian,
    KnownGaussian,
    SphericalGaussian,
    TiedDiagonalGaussian,
    TiedGaussian,
)
from sketchlearn.models.mixture_value import Mixture
from sketchlearn.models.stable_family import IndependentStable, SymmetricStable
from sketchlearn.models.stretched_gaussian import StretchedGaussian

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
