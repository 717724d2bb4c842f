"""Every estimator passes scikit-learn's own checks, and behaves as its users expect."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl

ESTIMATORS = [
    skl.SketchKMeans(3, random_state=0),
    skl.SketchKMedians(3, random_state=0),
    skl.SketchGaussianMixture(2, covariance_type="diag", random_state=0),
    skl.SketchGaussianMixture(2, random_state=0),
    skl.SketchStableMixture(2, random_state=0),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # twenty rows are not a mixture
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)
