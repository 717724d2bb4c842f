"""scikit-learn estimators that learn from sketches."""

from sketchlearn.estimators.kmeans import SketchKMeans, SketchKMedians

__all__ = ["SketchKMeans", "SketchKMedians"]
