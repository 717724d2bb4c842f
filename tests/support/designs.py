"""Designs, or the part of them that a test is about."""

import sketchlearn as skl


def fourier_design(*args, **options):
    """The Fourier features of a design, without the histograms that those for clusters have beside them."""
    return skl.design(*args, **options).part(skl.features.FourierFeatures)
