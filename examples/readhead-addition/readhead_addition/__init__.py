"""A task, a model and a row for Readhead, from outside: nothing in Readhead knows of them."""
