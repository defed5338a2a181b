"""Suite ``babi``: twenty kinds of question about short stories, and what must be kept to answer them."""
