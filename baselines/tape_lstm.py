"""Graves, Wayne, Danihelka 2014: "Neural Turing Machines", the LSTM baseline of §4."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.losses import sequence_cost
from baselines.optimisation import adam
from baselines.recurrent import set_forget_bias
from harness.families import Batch
from harness.families.tape import Inputs, Prediction, Spec


class TapeLSTM(pl.LightningModule):
    """Stacked LSTM layers read the tape and write a bit vector at every step; they have no memory beside their state.

    The loss is the cross-entropy of a whole sequence, summed over the answered bits and averaged over the batch, which
    is the cost the paper reports. Paper: three layers of 256 cells, learned initial state, RMSProp.

    ``stacked`` joins the layers as the paper's parameter counts say: every layer sees the tape, and the output every
    layer. Otherwise each layer sees the one below alone, and the output the last.

    Deviations: the forget bias starts at 1; Adam instead of RMSProp; gradients are clipped by norm, not by value.
    """

    families = ("tape",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        hidden: int = 256,
        layers: int = 3,
        stacked: bool = False,
        learning_rate: float = 1e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        self.spec = spec
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.lstm: nn.Module = (StackedLSTM if stacked else nn.LSTM)(spec.input_channels, hidden, layers)
        self.initial = nn.Parameter(torch.zeros(2, layers, 1, hidden))  # hidden and cell state before the tape
        self.output = nn.Linear(layers * hidden if stacked else hidden, spec.output_bits)
        if isinstance(self.lstm, nn.LSTM):
            set_forget_bias(self.lstm)

    def forward(self, tape: Tensor) -> Tensor:
        """Return logits ``(B,T,K)`` for a ``tape (B,T,C)``."""
        hidden, cell = self.initial.expand(-1, -1, len(tape), -1).contiguous()  # (layers,B,n) each
        states, _ = self.lstm(tape.transpose(0, 1), (hidden, cell))  # (T,B,n), or (T,B,layers·n) stacked
        return self.output(states).transpose(0, 1)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cost of the batch's sequences."""
        return sequence_cost(self(batch.inputs.inputs), batch.targets.bits, batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the logits at every step."""
        return Prediction(self(inputs.inputs))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)


class StackedLSTM(nn.Module):
    """Layers that all see the input, and all are seen: 4n(C + 1 + n) weights in the first, 4n(C + 1 + 2n) in others.

    For layer l, with x~_t = [x_t, 1], so that a gate has one bias::

        i, f, g, o = W^l [x~_t, h^{l-1}_t] + U^l h^l_{t-1}        (no h^0)
        c^l_t = σ(f)∘c^l_{t-1} + σ(i)∘tanh(g)
        h^l_t = σ(o)∘tanh(c^l_t)

    Called as ``nn.LSTM``, but its output is ``[h^1_t, ..., h^layers_t] (T,B,layers·n)``.
    """

    def __init__(self, input_channels: int, hidden: int, layers: int):
        super().__init__()
        below = [0] + [hidden] * (layers - 1)
        self.layers = nn.ModuleList(nn.LSTM(input_channels + 1 + width, hidden, bias=False) for width in below)
        with torch.no_grad():
            for name, weight in self.layers.named_parameters():
                if "weight_ih" in name:
                    weight[:, input_channels] = 0.0
                    weight[hidden : 2 * hidden, input_channels] = 1.0  # the forget gate's bias

    def forward(self, x: Tensor, initial: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the states of all layers and the last ``(h, c)``, each ``(layers,B,n)``; ``x (T,B,C)``."""
        x = torch.cat([x, torch.ones_like(x[:, :, :1])], dim=2)  # (T,B,C+1)
        states: list[Tensor] = []
        last: list[tuple[Tensor, Tensor]] = []
        for layer, h_0, c_0 in zip(self.layers, *(each.split(1) for each in initial), strict=True):
            h, end = layer(torch.cat([x, *states[-1:]], dim=2), (h_0, c_0))
            states.append(h)
            last.append(end)
        h_last, c_last = (torch.cat(ends) for ends in zip(*last, strict=True))
        return torch.cat(states, dim=2), (h_last, c_last)
