"""The encoder–decoder of the package x-transformers as it is (``pip install x-transformers``)."""

import pytorch_lightning as pl
import torch
from torch.nn import functional as F
from x_transformers import XTransformer

from harness.families.transduction import BOS, EOS, PAD, Prediction


class XEncoderDecoder(pl.LightningModule):
    """Rotary positions; greedy search by the package's own ``generate``."""

    families, version = ("transduction",), 1

    def __init__(self, spec, *, width: int = 128, heads: int = 4, layers: int = 2, learning_rate: float = 1e-3):
        super().__init__()
        self.spec, self.learning_rate = spec, learning_rate
        vocabularies = {"enc_num_tokens": spec.source_vocabulary, "dec_num_tokens": spec.target_vocabulary}
        longest = {"enc_max_seq_len": spec.max_test_size, "dec_max_seq_len": 1 + spec.output_limit(spec.max_test_size)}
        shape = {"depth": layers, "heads": heads, "rotary_pos_emb": True, "rotary_emb_dim": 32}
        both = {f"{part}_{key}": value for part in ("enc", "dec") for key, value in shape.items()}
        absolute = {"enc_use_abs_pos_emb": False, "dec_use_abs_pos_emb": False}
        special = {"ignore_index": PAD, "pad_value": PAD}
        self.model = XTransformer(dim=width, **vocabularies, **longest, **both, **absolute, **special)

    def training_step(self, batch, batch_idx):
        """The package's own loss: cross-entropy of every token after BOS."""
        answer = F.pad(batch.targets.target, (1, 0), value=BOS)
        return self.model(batch.inputs.source, answer, mask=batch.inputs.source != PAD)

    def predict_step(self, inputs, batch_idx=0):
        """The most probable token at each step, up to EOS."""
        start, limit = inputs.source.new_full((len(inputs), 1), BOS), self.spec.output_limit(inputs.source_length)
        options = {"mask": inputs.source != PAD, "temperature": 0.0, "eos_token": EOS}
        return Prediction(self.model.generate(inputs.source, start, int(limit.max()), **options))

    def configure_optimizers(self):
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)
