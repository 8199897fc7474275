"""Fact models: what is true in each world, from which its documents are rendered and its expected values computed."""
