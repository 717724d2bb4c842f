"""A mixture that was found, made better: refined, merged, sharpened, or reduced to points."""
