"""Laws of the random frequencies: how long they are; their directions are uniform, unless a law says otherwise.

Every law (a mixture: its parts) takes a `scale`, in the units of the data, that means the same in all of them: the
mean square length of a frequency is n_features / scale^2 (for Cauchy, which has no mean, the median, if there are many
columns; for ProductCauchy, the median of each coordinate's size is that of a Gaussian).
"""

from sketchlearn.frequencies.anisotropic_laws import Probed, ProductCauchy, Shaped
from sketchlearn.frequencies.isotropic_laws import (
    AdaptedRadius,
    Cauchy,
    FoldedGaussian,
    Gaussian,
    Law,
    LogUniform,
    Mixture,
    Weighted,
)

__all__ = [
    "AdaptedRadius",
    "Cauchy",
    "FoldedGaussian",
    "Gaussian",
    "Law",
    "LogUniform",
    "Mixture",
    "Probed",
    "ProductCauchy",
    "Shaped",
    "Weighted",
]
