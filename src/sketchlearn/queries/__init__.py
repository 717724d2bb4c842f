"""What can be asked of sketches directly, without learning clusters or mixtures first."""

from sketchlearn.queries.two_sample import ColumnDrift, Drift, two_sample_test

__all__ = ["ColumnDrift", "Drift", "two_sample_test"]
