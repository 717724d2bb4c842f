"""How sure an estimate is: standard errors of parameters, and means over the rows with their errors."""
