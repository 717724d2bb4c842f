from sketchlearn import decoders, engines, frequencies, models, privacy, queries, schemas, waves
from sketchlearn.diagnostics.center_intervals import CenterIntervals, center_intervals
from sketchlearn.diagnostics.explain import Explanation, explain
from sketchlearn.diagnostics.profile_values import Profiles
from sketchlearn.diagnostics.profiles import profiles
from sketchlearn.diagnostics.report.report_page import report
from sketchlearn.ledger import Ledger
from sketchlearn.operators import (
    CellSums,
    ColumnMoments,
    Concatenated,
    ConvolutionalFeatures,
    CrossFeatures,
    CumulantFeatures,
    ExpectedStatistics,
    FeatureMoments,
    FourierFeatures,
    Histograms,
    Operator,
    QuadraticFeatures,
    SecondMoments,
    SomeColumns,
    SomeDirections,
    VeroneseMoments,
    concatenate,
)
from sketchlearn.operators.measured_wave import MeasuredWave, measured_wave
from sketchlearn.packed import PackedBits
from sketchlearn.privacy import privatize
from sketchlearn.privacy.budget import Budget
from sketchlearn.private_bits import PrivateBits
from sketchlearn.queries import ChangeDetector, Drift, Questions, distance, two_sample_test
from sketchlearn.reporting import Collector
from sketchlearn.schemas import Schema
from sketchlearn.sketch import Sketch
from sketchlearn.sources import Source, register_reader, schema, source
from sketchlearn.storage.container import FormatError
from sketchlearn.storage.design_files import load_design, save_design
from sketchlearn.storage.schema_files import load_schema, save_schema
from sketchlearn.storage.sketch_files import from_bytes, load, merge
from sketchlearn.tasks.choosing.cluster_choice import ClusterChoice
from sketchlearn.tasks.choosing.number_of_clusters import choose_k
from sketchlearn.tasks.classes.classifier_estimator import SketchClassifier
from sketchlearn.tasks.clusters.cluster_estimators import SketchKMeans, SketchKMedians
from sketchlearn.tasks.estimating.fitted_model import FittedModel, model_array
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
from sketchlearn.tasks.gaussian_mixtures.gaussian_mixture_estimator import SketchGaussianMixture
from sketchlearn.tasks.generators.generator_estimator import SketchGenerator
from sketchlearn.tasks.independent_components.ica_estimator import SketchICA
from sketchlearn.tasks.kernel_features.periodic_features import PeriodicFeatures
from sketchlearn.tasks.kernel_regression.kernel_regression_estimator import SketchKernelRegressor
from sketchlearn.tasks.model_files import load_model, save_model
from sketchlearn.tasks.principal_components.pca_estimator import SketchPCA
from sketchlearn.tasks.registry import Task, register_task
from sketchlearn.tasks.regression.regression_estimators import SketchLinearRegression, SketchRidge
from sketchlearn.tasks.stable_mixtures.stable_mixture_estimator import SketchStableMixture
from sketchlearn.tasks.subspaces.subspace_estimator import SketchSubspaces
from sketchlearn.tasks.task_design import design
from sketchlearn.version import __version__

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
