"""The report: one HTML page about a sketch and a model of its clusters."""
