"""Laws of the random frequencies: how long they are; their directions are uniform.

Every law (a mixture: its parts) takes a `scale`, in the units of the data, that means the same in all of them: the
mean square length of a frequency is n_features / scale^2 (for Cauchy, which has no mean, the median, if there are many
columns).
"""

from sketchlearn.frequencies.adapted_radius import AdaptedRadius
from sketchlearn.frequencies.cauchy import Cauchy
from sketchlearn.frequencies.folded_gaussian import FoldedGaussian
from sketchlearn.frequencies.gaussian_law import Gaussian
from sketchlearn.frequencies.law_base import Law
from sketchlearn.frequencies.log_uniform import LogUniform
from sketchlearn.frequencies.mixture_law import Mixture
from sketchlearn.frequencies.probed import Probed
from sketchlearn.frequencies.shaped import Shaped
from sketchlearn.frequencies.weighted import Weighted

__all__ = [
    "AdaptedRadius",
    "Cauchy",
    "FoldedGaussian",
    "Gaussian",
    "Law",
    "LogUniform",
    "Mixture",
    "Probed",
    "Shaped",
    "Weighted",
]
