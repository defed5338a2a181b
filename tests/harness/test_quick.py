"""Lightning's hooks made quicker: the same class by name and behaviour, and only for a while."""

import inspect
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from harness.quick import quick_hooks


class Plain(pl.LightningModule):
    """A model that watches which hook it is in, and what is set on it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.seen: list[tuple[str, str | None]] = []

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        self.seen.append(("training_step", self._current_fx_name))
        self.log("loss", self.weight.sum())  # refused where Lightning does not know the hook
        return (self.weight * batch).sum()

    def on_before_zero_grad(self, optimizer: Any) -> None:
        self.seen.append(("on_before_zero_grad", self._current_fx_name))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


class OneArgument(Plain):
    def training_step(self, batch: Tensor) -> Tensor:  # type: ignore[override]
        return (self.weight * batch).sum()


class Watchful(Plain):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "mark":
            self.marked = value


def fit(model: pl.LightningModule) -> pl.Trainer:
    options: dict[str, Any] = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", **options)
    trainer.fit(model, DataLoader(torch.arange(12.0).view(4, 3), batch_size=None))
    return trainer


@pytest.mark.parametrize("kind", [Plain, OneArgument])
def test_training_gives_the_same_weights_and_the_same_hooks(kind):
    slow, fast = kind(), kind()
    fit(slow)
    with quick_hooks(fast):
        trainer = fit(fast)
        assert trainer.callback_metrics.keys() == ({"loss"} if kind is Plain else set())
    assert torch.equal(slow.weight, fast.weight)
    assert not torch.equal(fast.weight, torch.ones(3))
    assert slow.seen == fast.seen
    assert all(hook == noted for hook, noted in fast.seen)


def test_the_class_looks_the_same_and_comes_back():
    model = Plain()
    with quick_hooks(model):
        assert isinstance(model, Plain)
        assert type(model) is not Plain
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            assert getattr(type(model), name) == getattr(Plain, name)
        assert inspect.signature(model.training_step) == inspect.signature(Plain().training_step)
    assert type(model) is Plain
    with pytest.raises(KeyError), quick_hooks(model):
        raise KeyError("on the way")
    assert type(model) is Plain


def test_a_model_that_watches_its_attributes_still_does():
    model = Watchful()
    with quick_hooks(model):
        model.mark = 3
        model.other = nn.Parameter(torch.zeros(1))
        model._current_fx_name = "some_hook"
    assert model.marked == 3
    assert dict(model.named_parameters()).keys() == {"weight", "other"}
    assert model._current_fx_name == "some_hook"
