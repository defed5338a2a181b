"""From a scene to objects: cells of a convolutional network's last feature map, or states as they are."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.families.scene import BLANK, Inputs, Spec, check_inputs


class Objects(nn.Module):
    """What the models of scenes take for objects, as many features each as ``width`` says.

    Of an image: the cells of the last of several 3x3 convolutions of stride 2, each followed by a ReLU and batch
    normalisation, with their (row, column) in [-1, 1] appended, so that a cell says where it is. Of states: the states.
    A batch of few scenes has a variance some way off; evaluation takes the average of a hundred batches (with that of
    ten, 5 % off, a Relation Network answered .44 of the relational questions of validation instead of .80).
    ``count`` is their number N in a training scene.
    """

    def __init__(self, spec: Spec, conv: Sequence[int]):
        super().__init__()
        self.spec = spec
        if spec.image is None:
            self.count, self.width = spec.objects, spec.channels
            return
        layers: list[nn.Module] = []
        height, width = spec.image
        for before, after in zip([spec.channels, *conv], conv, strict=False):
            layers += [
                nn.Conv2d(before, after, 3, stride=2, padding=1),
                nn.ReLU(),
                nn.BatchNorm2d(after, momentum=0.01),
            ]
            height, width = -(-height // 2), -(-width // 2)
        self.convolutions = nn.Sequential(*layers)
        rows, columns = torch.linspace(-1, 1, height), torch.linspace(-1, 1, width)
        self.coordinates: Tensor
        self.register_buffer("coordinates", torch.cartesian_prod(rows, columns), persistent=False)  # (N,2)
        self.count, self.width = height * width, conv[-1] + 2
        stride = 2 ** len(conv)
        self.places = torch.cartesian_prod(torch.arange(height), torch.arange(width)) * stride
        """``(N,2)``: the pixel in the middle of what each cell sees."""

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the objects ``(B,N,width)`` of the scenes; a row of zeros is none."""
        check_inputs(inputs, self.spec)
        if self.spec.image is None:
            return inputs.scene
        features = self.convolutions(inputs.scene / 255).flatten(2).mT  # (B,N,conv[-1])
        return torch.cat([features, self.coordinates.expand(len(features), -1, -1)], dim=2)

    def missing(self, objects: Tensor) -> Tensor | None:
        """Return ``(B,N) bool``: the rows of zeros of ``objects (B,N,C)``; None where there are none such."""
        if self.spec.image is not None:
            return None
        missing = ~objects.any(2)
        return missing if bool(missing.any()) else None

    def explain(self, scenes: int) -> dict[str, Tensor]:
        """Return the cells' ``places (B,N,2)`` in the picture, for the models' own ``explain``; nothing of states."""
        return {} if self.spec.image is None else {"places": self.places.expand(scenes, -1, -1)}


def answer_loss(scores: Tensor, answer: Tensor) -> Tensor:
    """Return the cross-entropy (nats) of ``scores (B,Q,A)``, a mean over the questions of ``answer (B,Q)`` asked."""
    return F.cross_entropy(scores.flatten(0, 1), answer.flatten(), ignore_index=BLANK)
