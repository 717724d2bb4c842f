import numpy as np
from sketchlearn.models import DiagonalGaussian, Mixture
def pooled(mixtures):
    full = []
    for m in mixtures:
        variances = np.diagonal(m.covariances(), axis1=1, axis2=2)
        full.append((m.weights / m.weights.sum() / len(mixtures), m.locations, variances))
    return Mixture(DiagonalGaussian(), *(np.concatenate(part) for part in zip(*full, strict=True)))
