"""The contract of a model: a LightningModule with a constructor ``(spec, **hyperparameters)`` and three methods.

``training_step(batch, batch_idx) -> loss`` (with manual optimisation too), ``predict_step(inputs, batch_idx) ->
Prediction`` and ``configure_optimizers()``; class attributes ``families`` and ``version``. Optional:
``supports(spec, size) -> str | None`` (class method: why the model cannot be run at a size), ``explain(inputs) ->
dict[str, Tensor]`` (attention, memory weights), ``on_phase(name)``, ``on_validated(value)``.
"""

import inspect
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.errors import UserError, first_line, unknown
from harness.families import FAMILIES
from harness.registry import load_model_class

if TYPE_CHECKING:  # it takes seconds to import, and what verifies bundles needs none of it
    import pytorch_lightning as pl

METHODS = ("training_step", "predict_step", "configure_optimizers")


def get_model(name: str) -> "type[pl.LightningModule]":
    """Return the model class called ``name``, checked against the contract."""
    return check_class(load_model_class(name), name)


def check_class(model: Any, name: str) -> "type[pl.LightningModule]":
    """Return ``model`` if it fulfils the contract; a ``UserError`` says what to change otherwise."""
    import pytorch_lightning as pl

    if not isinstance(model, type):
        raise UserError(f"model {name!r} is not a class")
    if not issubclass(model, pl.LightningModule):
        other = sys.modules.get("lightning.pytorch")
        if other is not None and issubclass(model, other.LightningModule):
            raise UserError(
                f"model {name!r} derives from lightning.pytorch.LightningModule; Readhead trains with the package "
                "pytorch_lightning: change the import to `import pytorch_lightning as pl`"
            )
        raise UserError(f"model {name!r} must derive from pytorch_lightning.LightningModule")
    for method in METHODS:
        if getattr(model, method) is getattr(pl.LightningModule, method):
            raise UserError(f"model {name!r} does not define {method}")
    families = getattr(model, "families", None)
    if not isinstance(families, tuple) or not families:
        raise UserError(f"model {name!r} must have a class attribute families, a tuple of: {', '.join(FAMILIES)}")
    for family in families:
        if family not in FAMILIES:
            raise unknown(f"family in {name}.families", family, FAMILIES)
    if type(getattr(model, "version", None)) is not int:
        raise UserError(f"model {name!r} must have a class attribute version, an integer")
    if next(iter(_parameters(model)), None) != "spec":
        raise UserError(f"model {name!r} must take the task's spec as its first argument: __init__(self, spec, ...)")
    return model


def _parameters(model: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the constructor's parameters after ``self``."""
    parameters = inspect.signature(model.__init__).parameters
    return dict(list(parameters.items())[1:])


def build(model: "type[pl.LightningModule]", spec: Any, hyperparameters: Mapping[str, Any], name: str) -> Any:
    """Return ``model(spec, **hyperparameters)``; unknown names and refused values are ``UserError``s."""
    accepted = _parameters(model)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
    for key in hyperparameters:
        if key not in accepted and not open_ended:
            raise unknown(f"hyperparameter of {name}", key, [p for p in accepted if p != "spec"])
    try:
        return model(spec, **hyperparameters)
    except (Exception, SystemExit) as error:  # whatever a model refuses its settings with
        settings = ", ".join(f"{key}={value!r}" for key, value in hyperparameters.items())
        raise UserError(
            f"model {name} cannot be built with {settings or 'its defaults'}: {first_line(error)}"
        ) from error


def unsupported(model: type[Any], spec: Any, size: float) -> str | None:
    """Return the model's reason for not being run at ``size``, or None; ``UserError`` if ``supports`` fails."""
    supports = getattr(model, "supports", None)
    if supports is None:
        return None
    try:
        reason = supports(spec, size)
    except (Exception, SystemExit) as error:
        raise UserError(f"{model.__name__}.supports failed at size {size:g}: {first_line(error)}") from error
    if reason is not None and not isinstance(reason, str):
        raise UserError(f"{model.__name__}.supports returned {reason!r}; return a reason as a text, or None")
    return reason


def applies(model: type[Any], family: str) -> str | None:
    """Return why a model cannot be run on tasks of ``family``, or None if it can."""
    return None if family in model.families else f"its families are {', '.join(model.families)}"
