"""How good an agent is, measured: datasets, scorers, comparisons, reports."""
