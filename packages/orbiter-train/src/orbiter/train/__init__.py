"""Better agents from their own runs: datasets, fine-tuning, instruction optimisation."""
