"""One run's training through Lightning: segments, validation by the harness, checkpoints, exact resume.

A run is cut into segments of equal length, one a validation, and a segment is one Lightning epoch: resuming happens at
an epoch's end, the place where Lightning's own loops restart exactly.
"""

import hashlib
import math
import random
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.profilers import PassThroughProfiler
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from harness.checkpoints import Checkpoints
from harness.errors import UserError, first_line
from harness.evaluation import predict
from harness.families.base import Batch
from harness.mirror import Mirror
from harness.progress import RunProgress
from harness.quick import quick_hooks
from harness.recipe import Training
from harness.schedule import Schedule
from harness.task import Task

LARGEST_GRADIENT = 1e12
"""Norm of a gradient, before clipping, beyond which a run has diverged: far above the spikes that clipping is for."""


class SegmentLoader:
    """An iterable for Lightning whose every pass is the next segment; ``position`` is moved by the callback.

    Of every batch it yields one part of ``parts``: that of one device among several.
    """

    def __init__(self, schedule: Schedule):
        self.schedule, self.position = schedule, 0
        self.part, self.parts = 0, 1

    def __len__(self) -> int:
        return max(segment.stop - segment.start for segment in self.schedule.segments)

    def __iter__(self) -> Iterator[Batch]:
        segment = self.schedule.segments[self.position]
        yield from self.schedule.batches[segment.phase].iterate(segment.start, segment.stop, self.part, self.parts)


class NoProfiler(PassThroughProfiler):
    """Lightning enters a profiler some 25 times a step; its own empty one costs .1 ms, this one next to none."""

    nothing = nullcontext()

    def profile(self, action_name: str) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return self.nothing


class Trainer(pl.Trainer):
    """Lightning's trainer, except that it knows the exact number of steps of the whole run."""

    total_batches: int

    @property
    def estimated_stepping_batches(self) -> int:
        """Batches of the whole run, for learning-rate schedules."""
        return self.total_batches


@dataclass
class Outcome:
    """What training left behind. ``curve`` rows are keyed as ``results.CURVE_COLUMNS``; weights are on the CPU."""

    curve: list[dict[str, Any]] = field(default_factory=list)
    best: int | None = None
    best_weights: dict[str, torch.Tensor] | None = None
    diverged: str | None = None
    seconds: float = 0.0
    position: int = 0
    mirror_run: str | None = None
    source_hash: str = ""
    forced: bool = False

    def best_value(self) -> float:
        """Return the best validation headline so far, NaN before the first."""
        return math.nan if self.best is None else self.curve[self.best]["validation"]


def derive_seed(seed: int, purpose: str) -> int:
    """Return the seed of one stream (``init`` or ``training``) of run seed ``seed``."""
    return int.from_bytes(hashlib.sha256(f"readhead|{seed}|{purpose}".encode()).digest()[:4], "little")


def seed_everything(seed: int) -> None:
    """Seed every global generator that a model may draw from."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (a model may draw from it; ours never do)
    random.seed(seed)


def random_states() -> dict[str, Any]:
    """Return the state of every global generator, as plain types."""
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "numpy": (name, np.asarray(keys).tolist(), *rest),
        "python": random.getstate(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states: dict[str, Any]) -> None:
    """Put back what ``random_states`` returned."""
    torch.set_rng_state(states["torch"])
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    if states.get("cuda"):
        torch.cuda.set_rng_state_all(states["cuda"])


class Harness(pl.callbacks.Checkpoint):
    """Validates, records, checkpoints and shows progress at the end of every segment; touches nothing in between.

    For Lightning it is a checkpoint callback: their hooks come after the model's own, so that what a model does at the
    end of an epoch is validated and saved.
    """

    def __init__(
        self,
        task: Task,
        regime: str,
        spec: Any,
        loader: SegmentLoader,
        checkpoints: Checkpoints,
        progress: RunProgress,
        mirror: Mirror | None,
        seed: int,
    ):
        self.task, self.spec, self.seed = task, spec, seed
        self.validation = task.load(task.regime(regime).validation)
        self.loader, self.checkpoints, self.progress, self.mirror = loader, checkpoints, progress, mirror
        self.outcome = Outcome()
        self.interrupt: KeyboardInterrupt | None = None
        self._random_states: dict[str, Any] | None = None
        self._loss: torch.Tensor | float = 0.0
        self._batches, self._length = 0, 0
        self._gradient = 0.0  # a norm: of several optimisers together
        self._clock = 0.0
        self._told: int | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return all that Lightning's own state lacks: data position, curve, best weights, generators."""
        return {"outcome": vars(self.outcome), "random": random_states()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up where ``state_dict`` left off."""
        self.outcome = Outcome(**state_dict["outcome"])
        self._random_states = state_dict["random"]
        self.loader.position = self.outcome.position

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the generators of training, apart from those of initialisation, or take up the interrupted ones."""
        self.loader.part, self.loader.parts = trainer.global_rank, trainer.world_size
        if self._random_states is None:
            seed_everything(derive_seed(self.seed, "training"))
        else:
            restore_random_states(self._random_states)
        self._clock = time.perf_counter()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begin a phase where the segment is its first; tell the model which it is then, and when a run is taken up."""
        segment = self.loader.schedule.segments[self.loader.position]
        phase = self.loader.schedule.phases[segment.phase]
        if segment.start == 0 and phase.learning_rate is not None:
            set_learning_rate(trainer, phase.learning_rate)
        if segment.phase != self._told and hasattr(pl_module, "on_phase"):
            pl_module.on_phase(phase.name)
            self._told = segment.phase
        self._loss, self._batches, self._gradient = 0.0, 0, 0.0
        self._length = segment.stop - segment.start
        trainer.fit_loop.max_batches = self._length  # by which Lightning knows a segment's end, and steps schedulers

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        """Measure a segment's last gradient before it is clipped; of every step that would be felt in small models."""
        if self._batches + 1 == self._length and not _scaled(trainer):
            own = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            own = [grad.coalesce().values() if grad.is_sparse else grad for grad in own]
            self._gradient = math.hypot(self._gradient, float(torch.nn.utils.get_total_norm(own)))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Add up the loss, without waiting for its value."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if not isinstance(loss, torch.Tensor):
            name = type(pl_module).__name__
            raise UserError(f"{name}.training_step returned a {type(loss).__name__}; return the loss, a scalar tensor")
        self._loss = self._loss + loss.detach()
        self._batches += 1
        self.progress.advance()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validate, keep the best weights, record, save."""
        outcome = self.outcome
        outcome.position += 1
        loss = float(self._loss) / self._batches
        if trainer.world_size > 1:
            loss = float(trainer.strategy.reduce(torch.tensor(loss, device=pl_module.device), reduce_op="mean"))
        value = math.nan
        if not math.isfinite(loss):
            outcome.diverged = f"training loss became {loss}"
        elif not self._gradient <= LARGEST_GRADIENT:
            outcome.diverged = f"the gradient's norm became {self._gradient:.3g}, which is beyond {LARGEST_GRADIENT:g}"
        elif not all(bool(torch.isfinite(p).all()) for p in pl_module.parameters()):
            outcome.diverged = "weights became NaN or infinite"
        else:
            stored = predict(pl_module, self.task, self.spec, self.validation)
            metric = self.task.headline
            value = metric.score(metric.statistics(stored, self.validation))
        examples = self.loader.schedule.examples_after(outcome.position)
        now = time.perf_counter()
        outcome.seconds += now - self._clock
        self._clock = now
        step = sum(s.stop - s.start for s in self.loader.schedule.segments[: outcome.position])
        row = {"step": step, "examples": examples, "seconds": round(outcome.seconds, 3)}
        outcome.curve.append({**row, "training_loss": round(loss, 9), "validation": value})
        if math.isfinite(value) and (outcome.best is None or self.task.headline.better(value, outcome.best_value())):
            outcome.best = len(outcome.curve) - 1
            outcome.best_weights = {
                name: tensor.detach().to("cpu", copy=True) for name, tensor in pl_module.state_dict().items()
            }
        if outcome.diverged is None:
            if hasattr(pl_module, "on_validated"):
                pl_module.on_validated(value)
            self.loader.position = outcome.position
            self.checkpoints.save(self.checkpoints.last, trainer.save_checkpoint)
        else:
            trainer.should_stop = True
        if self.mirror is not None:
            self.mirror.follow(outcome.curve, self.task.headline.name)
            outcome.mirror_run = self.mirror.run_id  # a store that was away at the start has one only now
        self.progress.note(f"{examples:,} examples  loss {loss:.4g}  {self.task.headline.title} {value:.4g}")

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Remember a Ctrl-C, which Lightning turns into ``sys.exit(1)``."""
        if isinstance(exception, KeyboardInterrupt):
            self.interrupt = exception


def _scaled(trainer: pl.Trainer) -> bool:
    """Whether the loss is scaled for float16: gradients overflow now and then, and the step is left out."""
    return getattr(trainer.precision_plugin, "scaler", None) is not None


def set_learning_rate(trainer: pl.Trainer, learning_rate: float) -> None:
    """Set the rate of every parameter group, and the base rate of every scheduler."""
    for optimizer in trainer.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
    for config in trainer.lr_scheduler_configs:
        if hasattr(config.scheduler, "base_lrs"):
            config.scheduler.base_lrs = [learning_rate] * len(config.scheduler.base_lrs)


def trainer_options(training: Training) -> dict[str, Any]:
    """Return what a recipe says of a training step in Lightning's words: precision and gradient clipping."""
    return {
        "precision": training.precision,
        "gradient_clip_val": training.clip_norm or training.clip_value,
        "gradient_clip_algorithm": "value" if training.clip_value else "norm",
    }


def fit(model: pl.LightningModule, harness: Harness, training: Training, resume_from: Path | None) -> Outcome:
    """Train ``model`` to the end of its schedule, from ``resume_from`` if given. The model holds the last weights."""
    schedule = harness.loader.schedule
    try:
        trainer = Trainer(
            max_epochs=len(schedule.segments),
            accelerator=training.accelerator,
            devices=training.devices,
            strategy=training.strategy,
            use_distributed_sampler=False,
            logger=False,
            callbacks=[harness],
            profiler=NoProfiler(),
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            **trainer_options(training),
        )
    except (MisconfigurationException, ValueError) as error:
        asked = f"accelerator {training.accelerator}, devices {training.devices}, strategy {training.strategy}"
        raise UserError(f"Lightning refuses {asked}: {first_line(error)}") from error
    trainer.total_batches = schedule.total
    handler = signal.getsignal(signal.SIGINT)
    try:
        # Several devices are several processes, to which some strategies pickle the model.
        with quick_hooks(model) if training.devices == 1 else nullcontext():
            trainer.fit(model, harness.loader, ckpt_path=resume_from, weights_only=False)
    except SystemExit:
        if harness.interrupt is None:
            raise
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from harness.interrupt
    return harness.outcome
