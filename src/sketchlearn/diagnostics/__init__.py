"""Why a fit is poor, what sets clusters apart, pictures and reports: from sketches and models."""
