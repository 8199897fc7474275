"""A training run from a plan: trials, the loop, its watchers, evaluations; `envkit train` and `envkit ablate`."""
