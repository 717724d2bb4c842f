"""Random features for kernel machines."""
