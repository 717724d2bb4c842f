"""What is learned from sketches: scikit-learn estimators, one row for each in registry.py."""
