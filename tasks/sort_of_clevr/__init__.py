"""Suite ``sort-of-clevr``: relations between coloured shapes (Santoro et al. 2017, "A simple neural network module for
relational reasoning", §3.2)."""
