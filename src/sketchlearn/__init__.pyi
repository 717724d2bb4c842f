from sketchlearn import engines, privacy
from sketchlearn import questions as queries
from sketchlearn.collector.clients.client import Collector
from sketchlearn.core.limits import FormatError
from sketchlearn.core.packages import __version__
from sketchlearn.estimators.base.estimator import SketchEstimator
from sketchlearn.estimators.base.model import FittedModel, model_array
from sketchlearn.estimators.base.state import Glimpse
from sketchlearn.estimators.choice import ClusterChoice
from sketchlearn.estimators.choosing import choose_k
from sketchlearn.estimators.classifier import SketchClassifier
from sketchlearn.estimators.clusters.estimators import SketchKMeans, SketchKMedians
from sketchlearn.estimators.design.designs import design
from sketchlearn.estimators.files import load_model, save_model
from sketchlearn.estimators.gaussian_mixture import SketchGaussianMixture
from sketchlearn.estimators.generators.estimator import SketchGenerator
from sketchlearn.estimators.independent_components import SketchICA
from sketchlearn.estimators.kernel_features import PeriodicFeatures
from sketchlearn.estimators.kernel_regression import SketchKernelRegressor
from sketchlearn.estimators.linear_regression import SketchLinearRegression, SketchRidge
from sketchlearn.estimators.principal_components import SketchPCA
from sketchlearn.estimators.registry import Task, register_task
from sketchlearn.estimators.stable_mixture import SketchStableMixture
from sketchlearn.estimators.subspaces import SketchSubspaces
from sketchlearn.features import frequencies, waves
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.composed import Concatenated, SomeColumns, concatenate
from sketchlearn.features.convolutional import ConvolutionalFeatures
from sketchlearn.features.cumulants import CumulantFeatures
from sketchlearn.features.directions import SomeDirections
from sketchlearn.features.expected_statistics import ExpectedStatistics
from sketchlearn.features.fourier import FourierFeatures, MeasuredWave, measured_wave
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.moments import ColumnMoments, SecondMoments, VeroneseMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.products import CrossFeatures, FeatureMoments
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.files.designs import load_design, load_schema, save_design, save_schema
from sketchlearn.files.sketches import from_bytes, load, merge
from sketchlearn.inference import decoders
from sketchlearn.inference import distributions as models
from sketchlearn.privacy.budget import Budget
from sketchlearn.privacy.release import privatize
from sketchlearn.questions.comparison import ChangeDetector, Drift, distance, two_sample_test
from sketchlearn.questions.explain import Explanation, explain
from sketchlearn.questions.intervals import CenterIntervals, center_intervals
from sketchlearn.questions.profiles import Profiles, profiles
from sketchlearn.questions.questions import Questions
from sketchlearn.rows import schemas
from sketchlearn.rows.schemas.table_schema import Schema
from sketchlearn.rows.source import register_reader, schema, source
from sketchlearn.rows.source_base import Source
from sketchlearn.sketch.bits import PackedBits, PrivateBits
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import Sketch
from sketchlearn.views.report.page import report

__all__ = [
    "Budget",
    "CellSums",
    "CenterIntervals",
    "ChangeDetector",
    "ClusterChoice",
    "Collector",
    "ColumnMoments",
    "Concatenated",
    "ConvolutionalFeatures",
    "CrossFeatures",
    "CumulantFeatures",
    "Drift",
    "ExpectedStatistics",
    "Explanation",
    "FeatureMoments",
    "FittedModel",
    "FormatError",
    "FourierFeatures",
    "Glimpse",
    "Histograms",
    "Ledger",
    "MeasuredWave",
    "Operator",
    "PackedBits",
    "PeriodicFeatures",
    "PrivateBits",
    "Profiles",
    "QuadraticFeatures",
    "Questions",
    "Schema",
    "SecondMoments",
    "Sketch",
    "SketchClassifier",
    "SketchEstimator",
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
    "SomeColumns",
    "SomeDirections",
    "Source",
    "Task",
    "VeroneseMoments",
    "__version__",
    "center_intervals",
    "choose_k",
    "concatenate",
    "decoders",
    "design",
    "distance",
    "engines",
    "explain",
    "frequencies",
    "from_bytes",
    "load",
    "load_design",
    "load_model",
    "load_schema",
    "measured_wave",
    "merge",
    "model_array",
    "models",
    "privacy",
    "privatize",
    "profiles",
    "queries",
    "register_reader",
    "register_task",
    "report",
    "save_design",
    "save_model",
    "save_schema",
    "schema",
    "schemas",
    "source",
    "two_sample_test",
    "waves",
]
