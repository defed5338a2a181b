"""One run's training: schedule, determinism, exact resume, choice of weights, divergence."""

import math
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from harness import execution, training
from harness.checkpoints import cache_folder
from harness.errors import RunFailedError, UserError
from harness.families.tape import Prediction
from harness.model import get_model
from harness.plan import make_plan
from harness.recipe import Phase, Training
from harness.records import Run
from harness.registry import get_task
from harness.results import read_arrays, read_curve
from harness.schedule import Schedule
from harness.training import derive_seed

MODELS = Path(__file__).parent / "test_training.py"


class Tiny(pl.LightningModule):
    """A linear map a step: trains in milliseconds, draws random numbers, records what it is told."""

    families = ("tape",)
    version = 1

    def __init__(self, spec, *, learning_rate: float = 1e-2, dropout: float = 0.1, explode_at: int = -1):
        super().__init__()
        self.linear = nn.Linear(spec.input_channels, spec.output_bits)
        self.dropout = nn.Dropout(dropout)
        self.learning_rate, self.explode_at = learning_rate, explode_at

    def training_step(self, batch, batch_idx):
        logits = self.linear(self.dropout(batch.inputs.inputs)) + 0.01 * np.random.rand()  # noqa: NPY002
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.targets.bits)
        return loss * math.nan if self.global_step == self.explode_at else loss

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.linear(inputs.inputs) + 0 * torch.rand(1))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.learning_rate)
        total = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (total + 1))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Manual(Tiny):
    """Manual optimisation with two optimisers: global_step counts both, the budget counts examples."""

    def __init__(self, spec):
        super().__init__(spec)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(self.linear(batch.inputs.inputs), batch.targets.bits)
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def configure_optimizers(self):
        return [torch.optim.SGD([p], lr=0.1) for p in self.parameters()]


class Forgetful(Tiny):
    """Returns no loss."""

    def __init__(self, spec):
        super().__init__(spec)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        self.optimizers().step()


class Broken(Tiny):
    """Fails in its own code."""

    def training_step(self, batch, batch_idx):
        return {}["loss"]


def plan_one(name: str, seed: int = 0, settings: tuple[str, ...] = ("batch_size=32",), budget: str = "smoke"):
    return make_plan(f"{MODELS}:{name}", "ntm/copy", budget=budget, seeds=[seed], settings=settings).runs[0]


def run_one(planned, results: Path, **options) -> tuple[Path, Run]:
    return execution.execute(planned, results, mlflow=False, **options)


def killed_at(monkeypatch, position: int) -> list[int]:
    """Let the first training that gets so many segments far end there; return where all trainings were, in order."""
    original, seen = training.Harness.on_train_epoch_end, []

    def end(self, trainer, module):
        original(self, trainer, module)
        seen.append(self.outcome.position)
        if seen.count(position) == 1 and seen[-1] == position:
            raise ValueError("killed")

    monkeypatch.setattr(training.Harness, "on_train_epoch_end", end)
    return seen


def predictions(folder: Path, run: Run) -> dict[str, bytes]:
    return {split: arrays["logits"].tobytes() for split, arrays in read_arrays(folder, run).items()}


def test_schedule_covers_the_budget_in_about_twenty_segments():
    schedule = Schedule(get_task("ntm/copy"), "default", Training(batch_size=16), 131_072, seed=0)
    assert schedule.total == 131_072 // 16
    assert 15 <= len(schedule.segments) <= 21
    assert [s.start for s in schedule.segments[1:]] == [s.stop for s in schedule.segments[:-1]]
    assert schedule.examples_after(len(schedule.segments)) == 131_072


def test_schedule_of_phases():
    phases = [
        Phase(name="warm", examples=0.25, batch_size=16, learning_rate=1e-2),
        Phase(name="main", examples=0.75, batch_size=64),
    ]
    schedule = Schedule(get_task("ntm/copy"), "default", Training(phases=phases, validations=8), 4096, seed=0)
    assert [s.phase for s in schedule.segments] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert schedule.examples_after(len(schedule.segments)) == 4096
    first = [next(iter(schedule.batches[p].iterate(0, 1))) for p in (0, 1)]
    assert len(first[0]) == 16
    assert len(first[1]) == 64


def test_two_runs_of_one_identity_give_identical_predictions(tmp_path):
    folder_a, run_a = run_one(plan_one("Tiny"), tmp_path / "a")
    folder_b, run_b = run_one(plan_one("Tiny"), tmp_path / "b", force=True)
    assert predictions(folder_a, run_a) == predictions(folder_b, run_b)
    _, other = run_one(plan_one("Tiny", seed=1), tmp_path / "a")
    assert other.scores != run_a.scores


def test_a_run_refuses_a_training_stream_that_changed(tmp_path, monkeypatch):
    planned = plan_one("Tiny")
    monkeypatch.setitem(planned.task.pinned["splits"], "train", "0" * 64)
    planned.task._loaded.pop("train", None)
    with pytest.raises(UserError, match=r"split train of ntm/copy version \d has fingerprint"):
        run_one(planned, tmp_path)
    assert not list(tmp_path.rglob("run.json"))


def test_a_run_leaves_the_global_generators_as_they_were(tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    run_one(plan_one("Tiny"), tmp_path)
    assert torch.equal(before, torch.get_rng_state())


def test_a_finished_run_is_not_run_again_and_a_changed_identity_is(tmp_path, monkeypatch):
    _, first = run_one(plan_one("Tiny"), tmp_path)
    _, again = run_one(plan_one("Tiny"), tmp_path)
    assert again.provenance.finished == first.provenance.finished
    assert again.checksum == first.checksum
    monkeypatch.setattr(Tiny, "version", 2)
    planned = plan_one("Tiny")
    monkeypatch.setattr(type(execution.build_model(planned)), "version", 2)
    _, changed = run_one(plan_one("Tiny"), tmp_path)
    assert changed.identity.model_version == 2


@pytest.mark.parametrize("stop_after", [1, 7, 15, 16])
def test_resume_after_an_interruption_gives_identical_predictions(tmp_path, monkeypatch, stop_after):
    whole_folder, whole = run_one(plan_one("Tiny"), tmp_path / "whole")

    class Crash(Exception):
        pass

    original = training.Harness.on_train_epoch_end
    calls = 0

    def crash(self, trainer, module):
        nonlocal calls
        original(self, trainer, module)
        calls += 1
        if calls == stop_after:
            raise Crash

    monkeypatch.setattr(training.Harness, "on_train_epoch_end", crash)
    with pytest.raises(RunFailedError):
        run_one(plan_one("Tiny"), tmp_path / "resumed", force=True)
    monkeypatch.setattr(training.Harness, "on_train_epoch_end", original)
    folder, resumed = run_one(plan_one("Tiny"), tmp_path / "resumed")
    assert predictions(folder, resumed) == predictions(whole_folder, whole)
    columns = ["step", "examples", "training_loss", "validation"]
    assert read_curve(folder, resumed)[columns].equals(read_curve(whole_folder, whole)[columns])
    assert resumed.selection == whole.selection


def test_the_learning_rate_schedule_sees_the_whole_run(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        training.Harness,
        "on_exception",
        lambda *a: None,
    )
    original = training.Harness.on_train_epoch_end

    def watch(self, trainer, module):
        seen.append((trainer.estimated_stepping_batches, trainer.optimizers[0].param_groups[0]["lr"]))
        original(self, trainer, module)

    monkeypatch.setattr(training.Harness, "on_train_epoch_end", watch)
    run_one(plan_one("Tiny"), tmp_path)
    totals, rates = zip(*seen, strict=True)
    assert set(totals) == {1024 // 32}
    assert rates[-1] == pytest.approx(1e-2 * (1 - 32 / 33))


def test_the_best_checkpoint_is_scored_and_the_last_where_asked(tmp_path):
    folder, best = run_one(plan_one("Tiny", settings=("batch_size=32", "learning_rate=3.0")), tmp_path)
    curve = read_curve(folder, best)
    assert best.selection.validation == curve["validation"].min()
    settings = ("batch_size=32", "learning_rate=3.0", "checkpoint=last")
    folder, last = run_one(plan_one("Tiny", settings=settings), tmp_path)
    assert last.selection.validation == read_curve(folder, last)["validation"].iloc[-1]
    assert last.selection.step == 32


def test_a_diverged_run_is_a_finished_result_without_scores(tmp_path):
    folder, run = run_one(plan_one("Tiny", settings=("batch_size=32", "explode_at=9")), tmp_path)
    assert run.status == "diverged"
    assert "nan" in run.reason
    assert run.scores == []
    curve = read_curve(folder, run)
    assert len(curve) < 16
    assert math.isnan(curve["training_loss"].iloc[-1])
    assert run.cost.examples < 1024


def test_a_gradient_beyond_bounds_is_a_divergence_though_it_is_clipped(tmp_path, monkeypatch):
    step = Tiny.training_step
    huge = 10 * training.LARGEST_GRADIENT

    def steep(self, batch, batch_idx):
        loss = step(self, batch, batch_idx)
        return loss + huge * (self.linear.bias.sum() - self.linear.bias.sum().detach())  # a slope, and no loss

    monkeypatch.setattr(get_model(f"{MODELS}:Tiny"), "training_step", steep)
    folder, run = run_one(plan_one("Tiny", settings=("batch_size=32", "clip_norm=1.0")), tmp_path)
    assert run.status == "diverged"
    assert "the gradient's norm became" in run.reason
    curve = read_curve(folder, run)
    assert len(curve) == 1
    assert math.isfinite(curve["training_loss"].iloc[0])
    monkeypatch.setattr(training, "LARGEST_GRADIENT", 100 * huge)
    assert run_one(plan_one("Tiny", settings=("batch_size=32", "clip_norm=1.0")), tmp_path, force=True)[1].scores


class Sparse(Tiny):
    """Its gradient is sparse, which has no norm of its own."""

    def __init__(self, spec):
        super().__init__(spec)
        self.table = nn.Embedding(4, spec.output_bits, sparse=True)

    def training_step(self, batch, batch_idx):
        return (self.table(torch.tensor([1, 1, 2])) ** 2).sum()

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.linear(inputs.inputs) + self.table.weight[0])

    def configure_optimizers(self):
        return torch.optim.SparseAdam(self.table.parameters(), lr=1e-3)


def test_a_sparse_gradient_is_measured_too(tmp_path):
    assert run_one(plan_one("Sparse"), tmp_path)[1].status == "completed"


def test_manual_optimisation_counts_examples_not_optimiser_steps(tmp_path):
    folder, run = run_one(plan_one("Manual"), tmp_path)
    assert run.cost.examples == 1024
    assert read_curve(folder, run)["step"].iloc[-1] == 32


def test_precision_is_of_training_steps_alone_and_part_of_the_identity(tmp_path, monkeypatch):
    seen: dict[str, set[bool]] = {"training_step": set(), "predict_step": set()}

    planned = plan_one("Tiny", settings=("batch_size=32", "precision=bf16-mixed"))
    model = get_model(planned.recipe.model)

    def watch(name):
        original = getattr(model, name)

        def watched(self, *arguments):
            if self._trainer is not None:  # before the training a step is taken to count its operations
                seen[name].add(torch.is_autocast_enabled("cpu"))
            return original(self, *arguments)

        monkeypatch.setattr(model, name, watched)

    watch("training_step")
    watch("predict_step")
    _, run = run_one(planned, tmp_path)
    assert seen == {"training_step": {True}, "predict_step": {False}}
    assert run.identity.training["precision"] == "bf16-mixed"
    with pytest.raises(UserError, match="precision = 'half' is not valid"):
        plan_one("Tiny", settings=("precision=half",))


def test_a_step_without_a_loss_is_refused(tmp_path):
    with pytest.raises(UserError, match="training_step returned a NoneType; return the loss"):
        run_one(plan_one("Forgetful"), tmp_path)


def test_a_failure_in_the_models_code_names_the_place(tmp_path):
    with pytest.raises(RunFailedError, match=r"KeyError: 'loss' at test_training.py:\d+ in training_step"):
        run_one(plan_one("Broken"), tmp_path)
    assert not list(tmp_path.rglob("run.json"))
    assert not list(tmp_path.rglob(".tmp-*"))


def test_streams_of_initialisation_and_training_are_apart():
    seeds = {derive_seed(seed, purpose) for seed in range(50) for purpose in ("init", "training")}
    assert len(seeds) == 100


def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path, monkeypatch):
    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(training.Trainer, "save_checkpoint", full)
    with pytest.raises(UserError, match=r"checkpoint could not be saved in the cache .*No space left on device"):
        run_one(plan_one("Tiny"), tmp_path)
    assert not list(tmp_path.rglob("run.json"))


def test_a_damaged_checkpoint_starts_the_run_afresh(tmp_path):
    planned = plan_one("Tiny")
    whole_folder, whole = run_one(planned, tmp_path / "whole")
    from harness.checkpoints import Checkpoints

    store = Checkpoints(planned.identity)
    store.last.write_bytes(b"half a checkpoint")
    folder, run = run_one(planned, tmp_path / "again")
    assert predictions(folder, run) == predictions(whole_folder, whole)


def test_phases_set_the_learning_rate_and_tell_the_model(tmp_path, monkeypatch):
    planned = plan_one("Tiny")
    phases = [{"name": "warm", "examples": 0.5, "learning_rate": 0.5}, {"name": "main", "examples": 0.5}]
    identity = planned.identity.model_copy(update={"training": {"batch_size": 32, "phases": phases}})
    told = []  # in training: a copy is told, too, when FLOPs are counted
    monkeypatch.setattr(
        type(execution.build_model(planned)),
        "on_phase",
        lambda self, name: told.append(name) if self._trainer else None,
        raising=False,
    )
    _, run = run_one(execution.PlannedRun(planned.source, planned.task, "default", planned.recipe, identity), tmp_path)
    assert told == ["warm", "main"]
    assert run.cost.examples == 1024


def test_a_run_taken_up_inside_a_phase_tells_the_model_which(tmp_path, monkeypatch):
    planned = plan_one("Tiny")
    phases = [{"name": "warm", "examples": 0.25}, {"name": "main", "examples": 0.75}]
    settings = {"batch_size": 32, "phases": phases, "validations": 8}
    identity = planned.identity.model_copy(update={"training": settings})
    planned = execution.PlannedRun(planned.source, planned.task, "default", planned.recipe, identity)
    told = []  # in training: a copy is told, too, when FLOPs are counted
    monkeypatch.setattr(
        type(execution.build_model(planned)),
        "on_phase",
        lambda self, name: told.append(name) if self._trainer else None,
        raising=False,
    )
    killed_at(monkeypatch, 5)
    with pytest.raises(RunFailedError, match="killed"):
        run_one(planned, tmp_path)
    assert told == ["warm", "main"]
    told.clear()
    _, run = run_one(planned, tmp_path)
    assert told == ["main"]
    assert run.cost.examples == 1024


def test_a_schedule_by_epochs_steps_at_every_validation_however_short_the_segment(tmp_path, monkeypatch):
    planned, rates = plan_one("Tiny"), []
    model = type(execution.build_model(planned))

    def configure(self):
        optimiser = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimiser], [torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)]

    monkeypatch.setattr(model, "configure_optimizers", configure)
    monkeypatch.setattr(
        model, "on_validated", lambda self, value: rates.append(self.optimizers().param_groups[0]["lr"]), raising=False
    )
    phases = [{"name": "long", "examples": 0.5, "batch_size": 16}, {"name": "short", "examples": 0.5, "batch_size": 64}]
    settings = {"phases": phases, "validations": 4}
    identity = planned.identity.model_copy(update={"training": settings})
    run_one(execution.PlannedRun(planned.source, planned.task, "default", planned.recipe, identity), tmp_path)
    assert rates == [0.1 * 0.5**k for k in (1, 2, 3, 4)]


def test_what_a_model_does_at_the_end_of_an_epoch_is_in_the_checkpoint(tmp_path, monkeypatch):
    planned, ends = plan_one("Tiny"), []
    model = type(execution.build_model(planned))
    start = model.__init__

    def with_a_counter(self, spec):
        start(self, spec)
        self.register_buffer("ends", torch.zeros(()))

    monkeypatch.setattr(model, "__init__", with_a_counter)
    monkeypatch.setattr(model, "on_train_epoch_end", lambda self: self.ends.add_(1), raising=False)
    monkeypatch.setattr(model, "on_validated", lambda self, value: ends.append(float(self.ends)), raising=False)
    killed_at(monkeypatch, 2)
    with pytest.raises(RunFailedError, match="killed"):
        run_one(planned, tmp_path)
    folder, run = run_one(planned, tmp_path)
    assert ends == list(range(1, len(read_curve(folder, run)) + 1))


def test_a_forced_run_goes_on_and_keeps_the_old_weights_until_it_ends(tmp_path, monkeypatch):
    """The command that was interrupted begins where it was; what the stored run was scored with stays until then."""
    planned = plan_one("Tiny")
    run_one(planned, tmp_path)
    (weights,) = cache_folder().rglob("weights.pt")
    before, positions = weights.read_bytes(), killed_at(monkeypatch, 2)
    with pytest.raises(RunFailedError, match="killed"):
        run_one(planned, tmp_path, force=True)
    assert weights.read_bytes() == before
    assert run_one(planned, tmp_path)[1].status == "completed"  # without force the finished run is what there is
    run_one(planned, tmp_path, force=True)
    assert positions == list(range(1, len(positions) + 1)), "it began again instead of going on"
    assert not list(cache_folder().rglob("last.ckpt"))


def test_a_run_of_one_device_in_a_process_that_does_not_lead_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(UserError, match=r"has one device, but one of RANK, LOCAL_RANK, SLURM_PROCID says"):
        run_one(plan_one("Tiny"), tmp_path)


@pytest.mark.parametrize(
    ("returned", "said"), [([1], "a list; return"), ({"attention": [1]}, "a list as 'attention'; return")]
)
def test_a_broken_explanation_shows_before_the_training(tmp_path, monkeypatch, returned, said):
    planned = plan_one("Tiny")
    model = type(execution.build_model(planned))
    monkeypatch.setattr(model, "explain", lambda self, inputs: returned, raising=False)
    monkeypatch.setattr(model, "training_step", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(UserError, match=said):
        run_one(planned, tmp_path)


@pytest.mark.parametrize(
    ("supports", "said"),
    [
        (lambda spec, size: 1 / 0, "Tiny.supports failed at size 20: division by zero"),
        (lambda spec, size: 3, "Tiny.supports returned 3; return a reason as a text, or None"),
    ],
)
def test_a_broken_supports_shows_before_the_training(tmp_path, monkeypatch, supports, said):
    planned = plan_one("Tiny")
    model = type(execution.build_model(planned))
    monkeypatch.setattr(model, "supports", staticmethod(supports), raising=False)
    monkeypatch.setattr(model, "training_step", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(UserError, match=said):
        run_one(planned, tmp_path)


def test_a_model_that_ends_the_process_is_an_error(tmp_path, monkeypatch):
    planned = plan_one("Tiny")

    def leave(self, spec):
        raise SystemExit(3)

    monkeypatch.setattr(type(execution.build_model(planned)), "__init__", leave)
    with pytest.raises(UserError, match="cannot be built"):
        run_one(planned, tmp_path)


def test_generators_of_graphics_processors_are_put_back(monkeypatch):
    """There is none here: this holds that their states are asked for and handed back."""
    given = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: ["state"])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", given.append)
    training.restore_random_states(training.random_states())
    assert given == [["state"]]


def test_a_model_is_told_each_validation_before_the_checkpoint(tmp_path, monkeypatch):
    """What it changes then is in the checkpoint, so that an interrupted run goes on with it."""
    planned, told, saved = plan_one("Tiny"), [], []
    model = type(execution.build_model(planned))
    monkeypatch.setattr(model, "on_validated", lambda self, value: told.append(value), raising=False)
    monkeypatch.setattr(model, "on_save_checkpoint", lambda self, checkpoint: saved.append(len(told)))
    folder, run = run_one(planned, tmp_path)
    assert told == read_curve(folder, run)["validation"].tolist()
    assert saved == list(range(1, len(told) + 1))
