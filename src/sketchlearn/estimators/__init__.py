"""scikit-learn estimators that learn from sketches."""

from sketchlearn.estimators.classifier import SketchClassifier
from sketchlearn.estimators.generator import SketchGenerator
from sketchlearn.estimators.ica import SketchICA
from sketchlearn.estimators.kmeans import SketchKMeans, SketchKMedians
from sketchlearn.estimators.mixture import SketchGaussianMixture
from sketchlearn.estimators.pca import SketchPCA
from sketchlearn.estimators.periodic import PeriodicFeatures
from sketchlearn.estimators.regression import SketchLinearRegression, SketchRidge
from sketchlearn.estimators.saved import load_model, save_model
from sketchlearn.estimators.stable import SketchStableMixture
from sketchlearn.estimators.subspaces import SketchSubspaces

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
