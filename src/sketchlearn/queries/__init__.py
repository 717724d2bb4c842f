"""What can be asked of sketches directly, without learning clusters or mixtures first."""

from sketchlearn.queries.drift import ColumnDrift, Drift, drift_test

__all__ = ["ColumnDrift", "Drift", "drift_test"]
