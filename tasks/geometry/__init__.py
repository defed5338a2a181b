"""Suite ``geometry``: answers that are positions in the input."""
