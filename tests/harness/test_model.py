"""The contract of a model: each way to break it is refused with what to change."""

import re
import sys
from types import ModuleType

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from harness.errors import UserError
from harness.families import FAMILIES
from harness.families.tape import Spec
from harness.model import applies, build, check_class, get_model, unsupported
from harness.registry import model_names

SPEC = Spec(max_train_size=5, max_test_size=9, input_channels=4, output_bits=3)


class Fine(pl.LightningModule):
    families = ("tape",)
    version = 1

    def __init__(self, spec, *, width: int = 4, rate: float = 0.1):
        super().__init__()
        if rate <= 0:
            raise ValueError(f"rate {rate} must be positive")
        assert width % 2 == 0, "width must be even"
        self.spec, self.layer = spec, nn.Linear(spec.input_channels, width)

    def training_step(self, batch, batch_idx):
        return self.layer(batch.inputs.inputs).sum()

    def predict_step(self, inputs, batch_idx=0):
        return None

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def without(method: str) -> type:
    """A class that fulfils the contract but for one method."""
    return type("Lacking", (Fine,), {method: getattr(pl.LightningModule, method)})


class NotLightning(nn.Module):
    families = ("tape",)
    version = 1


class NoSpec(Fine):
    def __init__(self, width=3):
        super().__init__(width)


class Starred(Fine):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Open(Fine):
    def __init__(self, spec, **kwargs):
        super().__init__(spec, **kwargs)


class Demanding(Fine):
    def __init__(self, spec, width):
        super().__init__(spec, width=width)


def test_a_model_that_keeps_the_contract_is_returned_as_it_is():
    assert check_class(Fine, "fine") is Fine
    assert check_class(Open, "open") is Open


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Fine(SPEC), "model 'm' is not a class"),
        (len, "model 'm' is not a class"),
        (NotLightning, "model 'm' must derive from pytorch_lightning.LightningModule"),
        (dict, "must derive from pytorch_lightning.LightningModule"),
        (without("training_step"), "model 'm' does not define training_step"),
        (without("predict_step"), "model 'm' does not define predict_step"),
        (without("configure_optimizers"), "model 'm' does not define configure_optimizers"),
        (NoSpec, "model 'm' must take the task's spec as its first argument: __init__(self, spec, ...)"),
        (Starred, "must take the task's spec as its first argument"),
    ],
    ids=["instance", "function", "module", "dict", "training", "predict", "optimizers", "no spec", "starred"],
)
def test_what_is_no_model_is_refused(model, message):
    with pytest.raises(UserError, match=re.escape(message)):
        check_class(model, "m")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"families": None}, f"must have a class attribute families, a tuple of: {', '.join(FAMILIES)}"),
        ({"families": ()}, "must have a class attribute families"),
        ({"families": ["tape"]}, "must have a class attribute families, a tuple"),
        ({"families": "tape"}, "must have a class attribute families, a tuple"),
        ({"families": ("tapes",)}, "unknown family in m.families 'tapes'. Did you mean 'tape'?"),
        ({"families": ("tape", 3)}, "unknown family in m.families '3'"),
        ({"version": None}, "must have a class attribute version, an integer"),
        ({"version": "1"}, "must have a class attribute version, an integer"),
        ({"version": 1.0}, "must have a class attribute version, an integer"),
        ({"version": True}, "must have a class attribute version, an integer"),
    ],
)
def test_class_attributes_are_checked(attributes, message):
    with pytest.raises(UserError, match=re.escape(message)):
        check_class(type("M", (Fine,), attributes), "m")


def test_a_module_of_the_other_lightning_package_is_told_what_to_change(monkeypatch):
    other = ModuleType("lightning.pytorch")
    other.LightningModule = type("LightningModule", (nn.Module,), {})
    monkeypatch.setitem(sys.modules, "lightning.pytorch", other)
    model = type("Theirs", (other.LightningModule,), {"families": ("tape",), "version": 1})
    with pytest.raises(UserError, match="change the import to `import pytorch_lightning as pl`"):
        check_class(model, "m")
    with pytest.raises(UserError, match="must derive from pytorch_lightning"):
        check_class(NotLightning, "m")


@pytest.mark.parametrize("name", model_names())
def test_every_installed_model_keeps_the_contract(name):
    assert get_model(name).__doc__


def test_a_model_is_built_with_its_hyperparameters():
    assert build(Fine, SPEC, {"width": 6}, "fine").layer.out_features == 6
    assert build(Open, SPEC, {"width": 6}, "open").layer.out_features == 6


@pytest.mark.parametrize(
    ("model", "hyperparameters", "message"),
    [
        (Fine, {"widht": 3}, "unknown hyperparameter of m 'widht'. Did you mean 'width'? Valid: rate, width"),
        (Fine, {"spec": 3}, "spec"),
        (Fine, {"rate": -1}, "model m cannot be built with rate=-1: rate -1 must be positive"),
        (Fine, {"rate": "x"}, "model m cannot be built with rate='x': "),
        (Open, {"depth": 3}, "model m cannot be built with depth=3: "),
        (Demanding, {}, "model m cannot be built with its defaults: "),
        (Fine, {"width": -2}, "model m cannot be built with width=-2: "),  # torch: RuntimeError
        (Fine, {"width": 3}, "model m cannot be built with width=3: width must be even"),  # an assertion
    ],
    ids=["unknown", "spec", "ValueError", "TypeError", "open", "missing", "RuntimeError", "AssertionError"],
)
def test_hyperparameters_that_the_model_refuses_are_named(model, hyperparameters, message):
    with pytest.raises(UserError, match=re.escape(message)):
        build(model, SPEC, hyperparameters, "m")


def test_a_model_says_why_it_cannot_be_run_at_a_size():
    class Small(Fine):
        @classmethod
        def supports(cls, spec, size):
            return "memory of 10" if size > 10 else None

    assert unsupported(Small, SPEC, 11) == "memory of 10"
    assert unsupported(Small, SPEC, 10) is None
    assert unsupported(Fine, SPEC, 10**9) is None


def test_a_model_runs_on_its_families_alone():
    assert applies(Fine, "tape") is None
    assert applies(Fine, "transduction") == "its families are tape"
