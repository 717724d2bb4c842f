"""scikit-learn estimators that learn from sketches."""

from sketchlearn.tasks.classes.classifier_estimator import SketchClassifier
from sketchlearn.tasks.clusters.cluster_estimators import SketchKMeans, SketchKMedians
from sketchlearn.tasks.gaussian_mixtures.gaussian_mixture_estimator import SketchGaussianMixture
from sketchlearn.tasks.generators.generator_estimator import SketchGenerator
from sketchlearn.tasks.independent_components.ica_estimator import SketchICA
from sketchlearn.tasks.kernel_features.periodic_features import PeriodicFeatures
from sketchlearn.tasks.model_files import load_model, save_model
from sketchlearn.tasks.principal_components.pca_estimator import SketchPCA
from sketchlearn.tasks.regression.regression_estimators import SketchLinearRegression, SketchRidge
from sketchlearn.tasks.stable_mixtures.stable_mixture_estimator import SketchStableMixture
from sketchlearn.tasks.subspaces.subspace_estimator import SketchSubspaces

__all__ = [
    "PeriodicFeatures",
    "SketchClassifier",
    "SketchGaussianMixture",
    "SketchGenerator",
    "SketchICA",
    "SketchKMeans",
    "SketchKMedians",
    "SketchLinearRegression",
    "SketchPCA",
    "SketchRidge",
    "SketchStableMixture",
    "SketchSubspaces",
    "load_model",
    "save_model",
]
