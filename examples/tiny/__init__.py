"""A policy small enough to learn on two CPU cores: demonstrations, vocabulary, warm start, weights."""
