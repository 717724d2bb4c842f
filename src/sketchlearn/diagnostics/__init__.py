"""Why a fit is poor: the sketch, its scale, the decoder, or the model."""

from sketchlearn.diagnostics.explain import Explanation, Verdict, explain

__all__ = ["Explanation", "Verdict", "explain"]
