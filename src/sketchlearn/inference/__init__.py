"""From sketches to parameters: pilots and steps, decoders, calibration, EM, standard errors."""
