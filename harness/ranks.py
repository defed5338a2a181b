"""Which of a run's processes this is: Lightning starts one for every device, each with the same command.

All of them train and validate. The first, which *leads*, holds the checkpoint, writes the bundle and speaks.
"""

import os

RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
"""Where Lightning, torchrun and SLURM tell a process its place."""


def leading() -> bool:
    """Return whether this process leads its run, as it does where there is no other."""
    return all(os.environ.get(name, "0") == "0" for name in RANKS)
