from sketchlearn import engines, features, privacy, questions
from sketchlearn.collector.clients.client import Collector
from sketchlearn.core.limits import FormatError
from sketchlearn.core.packages import __version__
from sketchlearn.estimators import extend
from sketchlearn.estimators.classifier import SketchClassifier
from sketchlearn.estimators.clusters.estimators import SketchKMeans, SketchKMedians
from sketchlearn.estimators.design.designs import design
from sketchlearn.estimators.files import load, save
from sketchlearn.estimators.gaussian_mixture import SketchGaussianMixture
from sketchlearn.estimators.generators.estimator import SketchGenerator
from sketchlearn.estimators.independent_components import SketchICA
from sketchlearn.estimators.kernel_features import PeriodicFeatures
from sketchlearn.estimators.kernel_regression import SketchKernelRegressor
from sketchlearn.estimators.linear_regression import SketchLinearRegression, SketchRidge
from sketchlearn.estimators.number_of_clusters import choose_k
from sketchlearn.estimators.principal_components import SketchPCA
from sketchlearn.estimators.stable_mixture import SketchStableMixture
from sketchlearn.estimators.subspaces import SketchSubspaces
from sketchlearn.files.sketches import from_bytes, merge
from sketchlearn.inference import decoders
from sketchlearn.privacy.release import privatize
from sketchlearn.questions.comparison import ChangeDetector, distance, two_sample_test
from sketchlearn.questions.explain import explain
from sketchlearn.questions.intervals import center_intervals
from sketchlearn.questions.profiles import profiles
from sketchlearn.questions.questions import Questions
from sketchlearn.rows import schemas
from sketchlearn.rows.schemas.table_schema import Schema
from sketchlearn.rows.source import schema, source
from sketchlearn.sketch.sums import Sketch
from sketchlearn.views.report.page import report

__all__ = [
    "ChangeDetector",
    "Collector",
    "FormatError",
    "PeriodicFeatures",
    "Questions",
    "Schema",
    "Sketch",
    "SketchClassifier",
    "SketchGaussianMixture",
    "SketchGenerator",
    "SketchICA",
    "SketchKMeans",
    "SketchKMedians",
    "SketchKernelRegressor",
    "SketchLinearRegression",
    "SketchPCA",
    "SketchRidge",
    "SketchStableMixture",
    "SketchSubspaces",
    "__version__",
    "center_intervals",
    "choose_k",
    "decoders",
    "design",
    "distance",
    "engines",
    "explain",
    "extend",
    "features",
    "from_bytes",
    "load",
    "merge",
    "privacy",
    "privatize",
    "profiles",
    "questions",
    "report",
    "save",
    "schema",
    "schemas",
    "source",
    "two_sample_test",
]
