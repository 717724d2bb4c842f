"""Standard errors and confidence intervals of what was learned."""
