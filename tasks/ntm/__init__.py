"""Suite ``ntm``: the algorithmic bit-tape tasks of "Neural Turing Machines" (Graves, Wayne, Danihelka 2014)."""
