"""Small scenes for models: their specs, batches, and what each model is built with."""

import numpy as np
import torch

from harness.families import Batch, scene

QUESTION = (3, 2)
STATES = scene.Spec(4, 7, image=None, channels=5, objects=4, question=QUESTION, answers=6)
PIXELS = scene.Spec(4, 7, image=(20, 20), channels=3, objects=4, question=QUESTION, answers=6)


def questions(scenes: int, asked: int, seed: int) -> torch.Tensor:
    """One-hot questions ``(scenes,asked,5)``."""
    rng = np.random.RandomState(seed)
    codes = [np.eye(size, dtype=np.float32)[rng.randint(0, size, (scenes, asked))] for size in QUESTION]
    return torch.from_numpy(np.concatenate(codes, axis=2))


def scene_batch(spec: scene.Spec, scenes: int = 3, asked: int = 4, objects: int = 4, seed: int = 0) -> Batch:
    """Random scenes and questions; each depends on its seed alone."""
    rng = np.random.RandomState(seed)
    if spec.image is None:
        shown = torch.from_numpy(rng.standard_normal((scenes, objects, spec.channels)).astype(np.float32))
    else:
        shown = torch.from_numpy(rng.randint(0, 256, (scenes, spec.channels, *spec.image)).astype(np.uint8))
    answer = torch.from_numpy(rng.randint(0, spec.answers, (scenes, asked)))
    return Batch(scene.Inputs(shown, questions(scenes, asked, seed)), scene.Targets(answer))
