"""Pictures and reports of sketches and models."""
