"""Suite ``seq2seq``: sequences to sequences, and how far beyond the training length an answer holds."""
