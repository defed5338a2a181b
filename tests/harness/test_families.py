"""The typed interfaces: canonical storage, refused predictions, padding, the causality audit."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CorruptBundleError, PredictionError, UserError
from harness.families import FAMILIES, TAPE, TRANSDUCTION, get_family, tape, transduction
from harness.families.base import Batch, Examples, pad_concatenate
from harness.families.tape import LOGIT_RANGE, dequantise, quantise
from harness.families.transduction import BOS, EOS, PAD, UNKNOWN, canonical_tokens
from harness.registry import get_task

SPEC = transduction.Spec(
    max_train_size=5, max_test_size=9, source_vocabulary=20, target_vocabulary=20, output_slope=1.5, output_offset=2
)
TAPE_SPEC = tape.Spec(max_train_size=5, max_test_size=9, input_channels=4, output_bits=3)
STEP = LOGIT_RANGE / 127


def sources(lengths: list[int], seed: int = 0) -> Examples:
    """Random copies: sources of ``lengths``, padded to one width."""
    rng = np.random.RandomState(seed)
    source = np.zeros((len(lengths), max(lengths)), np.int64)
    target = np.zeros((len(lengths), max(lengths) + 1), np.int64)
    for row, length in enumerate(lengths):
        source[row, :length] = target[row, :length] = rng.randint(4, 20, length)
        target[row, length] = EOS
    sizes = np.array(lengths)
    return Examples({"source": source, "source_length": sizes}, {"target": target}, sizes)


def tapes(lengths: list[int], seed: int = 0, channels: int = 4, bits: int = 3) -> Examples:
    """Random tapes of ``lengths`` steps, answered in their second half."""
    rng = np.random.RandomState(seed)
    inputs = np.zeros((len(lengths), max(lengths), channels), np.float32)
    target = np.zeros((len(lengths), max(lengths), bits), np.float32)
    answer = np.zeros((len(lengths), max(lengths)), bool)
    for row, length in enumerate(lengths):
        inputs[row, :length] = rng.randint(0, 2, (length, channels))
        target[row, length // 2 : length] = rng.randint(0, 2, (length - length // 2, bits))
        answer[row, length // 2 : length] = True
    sizes = np.array(lengths)
    return Examples({"inputs": inputs, "length": sizes}, {"bits": target, "answer": answer}, sizes)


def store_tokens(tokens: torch.Tensor, examples: Examples, spec: transduction.Spec = SPEC) -> np.ndarray:
    return TRANSDUCTION.store(transduction.Prediction(tokens), TRANSDUCTION.batch(examples), spec)["tokens"]


def equal(a: Examples, b: Examples) -> bool:
    ours, theirs = ({**e.inputs, **e.targets, "sizes": e.sizes} for e in (a, b))
    return ours.keys() == theirs.keys() and all(
        ours[k].dtype == theirs[k].dtype and np.array_equal(ours[k], theirs[k]) for k in ours
    )


def test_families_by_name():
    assert get_family("tape") is FAMILIES["tape"]
    with pytest.raises(UserError, match=r"unknown family 'tapes'. Did you mean 'tape'\? Valid: .*transduction"):
        get_family("tapes")


# Transduction: what is stored

token_rows = st.lists(st.lists(st.integers(0, 12), min_size=7, max_size=7), min_size=1, max_size=6)


@given(token_rows, st.data())
def test_canonical_form_follows_the_rule_row_by_row(rows, data):
    limits = data.draw(st.lists(st.integers(1, 9), min_size=len(rows), max_size=len(rows)))
    stored = canonical_tokens(np.array(rows), np.array(limits), 13)
    for row, limit, out in zip(rows, limits, stored.tolist(), strict=True):
        kept = row[: row.index(EOS) + 1] if EOS in row else row
        expected = [UNKNOWN if token in (PAD, BOS) else token for token in kept[:limit]]
        assert out == expected + [PAD] * (len(out) - len(expected))
    assert stored.shape[1] == max((out != PAD).sum() for out in stored)  # no column is padding in every row


@given(token_rows, st.data())
def test_canonicalisation_is_idempotent(rows, data):
    limits = np.array(data.draw(st.lists(st.integers(1, 7), min_size=len(rows), max_size=len(rows))))
    once = canonical_tokens(np.array(rows), limits, 13)
    assert np.array_equal(canonical_tokens(once, limits, 13), once)


@given(token_rows, st.data())
def test_what_follows_the_first_eos_does_not_matter(rows, data):
    tokens = np.array(rows)
    other = data.draw(st.integers(0, 12))
    behind = np.cumsum(tokens == EOS, axis=1) - (tokens == EOS) > 0
    limit = np.full(len(rows), 7)
    changed = np.where(behind, other, tokens)
    assert np.array_equal(canonical_tokens(tokens, limit, 13), canonical_tokens(changed, limit, 13))


def test_every_row_is_cut_at_its_own_limit():
    examples = sources([1, 4])  # limits int(3.5) = 3 and 8
    stored = store_tokens(torch.full((2, 20), 9), examples)
    assert stored.tolist() == [[9] * 3 + [PAD] * 5, [9] * 8]


def test_an_end_at_the_limit_counts_and_one_behind_it_does_not():
    examples = sources([1, 1])
    tokens = torch.tensor([[9, 9, EOS, 9], [9, 9, 9, EOS]])
    assert store_tokens(tokens, examples).tolist() == [[9, 9, EOS], [9, 9, 9]]


@pytest.mark.parametrize("slope", [0.5, 1, 1.1, 1.5, 2, 2.3, 0.7, 3.6])
def test_the_limit_of_an_int_an_array_and_a_tensor_is_the_same(slope):
    spec = dataclasses.replace(SPEC, output_slope=slope)
    lengths = np.arange(1, 401)
    by_int = [spec.output_limit(int(n)) for n in lengths]
    assert all(isinstance(limit, int) for limit in by_int)
    assert spec.output_limit(lengths).tolist() == by_int
    assert spec.output_limit(lengths).dtype == np.int64
    as_tensor = spec.output_limit(torch.from_numpy(lengths))
    assert as_tensor.dtype == torch.int64
    assert as_tensor.tolist() == by_int


@pytest.mark.parametrize(
    ("vocabulary", "dtype"), [(20, np.uint8), (256, np.uint8), (257, np.uint16), (5000, np.uint16)]
)
def test_a_big_vocabulary_is_stored_in_two_bytes(vocabulary, dtype):
    spec = dataclasses.replace(SPEC, target_vocabulary=vocabulary)
    stored = store_tokens(torch.tensor([[vocabulary - 1, EOS]]), sources([1]), spec)
    assert stored.dtype == dtype
    assert stored.tolist() == [[vocabulary - 1, EOS]]


def test_no_token_at_all_is_an_empty_answer():
    stored = store_tokens(torch.zeros((2, 0), dtype=torch.int64), sources([1, 2]))
    assert stored.shape == (2, 0)
    joined = TRANSDUCTION.join([{"tokens": stored}, {"tokens": np.array([[5, EOS]], np.uint8)}])
    assert joined["tokens"].tolist() == [[0, 0], [0, 0], [5, EOS]]


@given(st.integers(0, 2**32 - 1))
def test_an_answer_is_stored_the_same_alone_and_in_a_batch(seed):
    rng = np.random.RandomState(seed)
    examples = sources(rng.randint(1, 6, 4).tolist(), seed)
    tokens = torch.from_numpy(rng.randint(0, 20, (4, 12)))
    tokens[:, 11] = EOS
    together = store_tokens(tokens, examples)
    alone = TRANSDUCTION.join(
        [{"tokens": store_tokens(tokens[i : i + 1], examples.take(slice(i, i + 1)))} for i in range(4)]
    )
    assert np.array_equal(alone["tokens"], together)


# Transduction: what is refused


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.int64), r"returned a Tensor; return harness.families.transduction.Prediction"),
        (None, "returned a NoneType"),
        (tape.Prediction(torch.zeros(2, 3, 3)), "returned a Prediction; return harness.families.transduction"),
        (transduction.Prediction([[4, 2], [4, 2]]), "returned tokens as a list"),
        (transduction.Prediction(np.zeros((2, 3), np.int64)), "returned tokens as a ndarray"),
        (transduction.Prediction(torch.zeros(2, 3)), r"dtype torch.float32; expected torch.int64"),
        (transduction.Prediction(torch.full((2, 3), torch.nan)), r"dtype torch.float32"),
        (transduction.Prediction(torch.zeros(2, 3, dtype=torch.bool)), r"dtype torch.bool"),
        (transduction.Prediction(torch.zeros(2, 3, dtype=torch.uint8)), r"dtype torch.uint8"),
        (transduction.Prediction(torch.zeros(2, 3, dtype=torch.complex64)), r"dtype torch.complex64"),
        (transduction.Prediction(torch.zeros(3, 3, dtype=torch.int64)), r"shape \(3, 3\); expected .* B = 2"),
        (transduction.Prediction(torch.zeros(2, dtype=torch.int64)), r"shape \(2,\); expected \(B,T'\)"),
        (transduction.Prediction(torch.zeros(2, 3, 20, dtype=torch.int64)), r"shape \(2, 3, 20\)"),
        (transduction.Prediction(torch.full((2, 3), 20)), r"token 20; the target vocabulary is 0\.\.19"),
        (transduction.Prediction(torch.tensor([[4, 2], [-1, 2]])), r"token -1; the target vocabulary is 0\.\.19"),
    ],
)
def test_a_broken_transduction_prediction_is_refused(prediction, message):
    with pytest.raises(PredictionError, match=message):
        TRANSDUCTION.store(prediction, TRANSDUCTION.batch(sources([1, 2])), SPEC)


def test_other_integer_types_and_layouts_are_taken():
    tokens = torch.tensor([[4, 5], [EOS, EOS]], dtype=torch.int32).T
    assert store_tokens(tokens, sources([1, 1])).tolist() == [[4, EOS], [5, EOS]]


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"tokens": np.zeros((3, 4), np.uint8)},
        {"tokens": np.zeros(2, np.uint8)},
        {"tokens": np.zeros((2, 4), np.float32)},
        {"tokens": np.full((2, 4), "4")},
        {"tokens": np.full((2, 4), -1, np.int64)},
    ],
    ids=["missing", "rows", "rank", "float", "text", "negative"],
)
def test_stored_tokens_that_cannot_be_scored_are_corrupt(stored):
    with pytest.raises(CorruptBundleError, match="tokens"):
        TRANSDUCTION.check_stored(stored, sources([1, 2]))
    TRANSDUCTION.check_stored({"tokens": np.zeros((2, 4), np.uint8)}, sources([1, 2]))


# Tape: what is stored


@given(st.floats(-20, 20, width=32))
def test_quantisation_errs_by_half_a_step_at_most_and_is_symmetric(logit):
    value = np.array([logit], np.float32)
    level = quantise(value)
    assert level.dtype == np.uint8
    clipped = min(max(float(value[0]), -LOGIT_RANGE), LOGIT_RANGE)
    assert abs(dequantise(level)[0] - clipped) <= STEP / 2 + 1e-5
    assert int(quantise(-value)[0]) == 254 - int(level[0])
    assert dequantise(quantise(-value))[0] == -dequantise(level)[0]


def test_every_level_survives_a_round_trip_and_zero_is_zero():
    levels = np.arange(255, dtype=np.uint8)
    assert np.array_equal(quantise(dequantise(levels)), levels)
    assert quantise(np.zeros(1)).tolist() == [127]
    assert dequantise(np.array([127], np.uint8)).tolist() == [0]
    assert dequantise(np.array([0, 254], np.uint8)).tolist() == [-LOGIT_RANGE, LOGIT_RANGE]


@given(st.lists(st.floats(-20, 20, width=32), min_size=2, max_size=20))
def test_quantisation_keeps_order(logits):
    levels = quantise(np.sort(np.array(logits, np.float32))).astype(int)
    assert (np.diff(levels) >= 0).all()


def test_tape_stores_the_answer_steps_example_by_example():
    examples = tapes([2, 4])
    logits = torch.arange(2 * 4 * 3, dtype=torch.float32).reshape(2, 4, 3) / 4
    stored = TAPE.store(tape.Prediction(logits), TAPE.batch(examples), TAPE_SPEC)["logits"]
    expected = torch.cat([logits[0, 1:2].flatten(), logits[1, 2:4].flatten()])
    assert stored.tolist() == quantise(expected.numpy()).tolist()
    TAPE.check_stored({"logits": stored}, examples)


def test_logits_off_the_answer_steps_do_not_matter():
    batch = TAPE.batch(tapes([2, 4]))
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    wild = torch.where(batch.targets.answer[..., None], logits, torch.inf)
    plain, odd = (TAPE.store(tape.Prediction(l), batch, TAPE_SPEC)["logits"] for l in (logits, wild))
    assert np.array_equal(plain, odd)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_float_types_are_taken(dtype):
    logits = torch.full((2, 4, 3), 2.0)
    batch = TAPE.batch(tapes([2, 4]))
    plain = TAPE.store(tape.Prediction(logits), batch, TAPE_SPEC)["logits"]
    assert np.array_equal(TAPE.store(tape.Prediction(logits.to(dtype)), batch, TAPE_SPEC)["logits"], plain)


def test_a_prediction_with_a_gradient_is_taken():
    logits = torch.zeros(2, 4, 3, requires_grad=True)
    assert len(TAPE.store(tape.Prediction(logits * 1), TAPE.batch(tapes([2, 4])), TAPE_SPEC)["logits"]) == 9


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (torch.zeros(2, 4, 3), "returned a Tensor; return harness.families.tape.Prediction"),
        (tape.Prediction(None), "returned logits as a NoneType"),
        (tape.Prediction(torch.zeros(2, 3, 3)), r"shape \(2, 3, 3\); expected \(B,T,K\) = \(2, 4, 3\)"),
        (tape.Prediction(torch.zeros(4, 2, 3)), r"shape \(4, 2, 3\)"),
        (tape.Prediction(torch.zeros(2, 4, 4)), r"shape \(2, 4, 4\)"),
        (tape.Prediction(torch.zeros(2, 4)), r"shape \(2, 4\)"),
        (tape.Prediction(torch.zeros(2, 4, 3, dtype=torch.int64)), "dtype torch.int64; expected torch.float32"),
        (tape.Prediction(torch.zeros(2, 4, 3, dtype=torch.bool)), "dtype torch.bool"),
        (tape.Prediction(torch.full((2, 4, 3), torch.nan)), "NaN or infinite"),
        (tape.Prediction(torch.full((2, 4, 3), -torch.inf)), "NaN or infinite"),
    ],
)
def test_a_broken_tape_prediction_is_refused(prediction, message):
    with pytest.raises(PredictionError, match=message):
        TAPE.store(prediction, TAPE.batch(tapes([2, 4])), TAPE_SPEC)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"logits": np.zeros(8, np.uint8)},
        {"logits": np.zeros((9, 1), np.uint8)},
        {"logits": np.zeros(9, np.float32)},
        {"logits": np.zeros(9, np.int64)},
        {"logits": np.full(9, 255, np.uint8)},  # no logit is stored as 255
    ],
    ids=["missing", "count", "rank", "float", "int64", "level 255"],
)
def test_stored_logits_that_cannot_be_scored_are_corrupt(stored):
    examples = tapes([2, 4])
    with pytest.raises(CorruptBundleError, match="logits"):
        TAPE.check_stored(stored, examples)
    TAPE.check_stored({"logits": np.full(9, 254, np.uint8)}, examples)


def test_logits_are_the_same_up_to_one_level():
    a = np.array([0, 127, 254], np.uint8)
    assert TAPE.same(a, np.array([1, 126, 254], np.uint8))
    assert not TAPE.same(a, np.array([2, 127, 254], np.uint8))
    assert not TAPE.same(np.array([0], np.uint8), np.array([255], np.uint8))  # no wrap round
    assert not TAPE.same(a, a[:2])
    assert not TRANSDUCTION.same(np.array([[4]]), np.array([[5]]))


# Tape: only the past


def audit(model, lengths=(9, 9, 9)) -> None:
    TAPE.audit(lambda inputs: tape.Prediction(model(inputs.inputs)), TAPE.batch(tapes(list(lengths))))


def peek(x: torch.Tensor, step: int) -> torch.Tensor:
    """Read the present, and at one step the next one."""
    out = x[..., :3].clone()
    out[:, step] += x[:, step + 1, :3]
    return out


def test_causal_models_pass_the_audit():
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(4, 3, batch_first=True)
    audit(lambda x: lstm(x)[0])
    audit(lambda x: x.cumsum(1)[..., :3])
    audit(lambda x: x[..., :3])
    for lengths in ([1], [2, 2], [3, 2, 1]):
        audit(lambda x: x.cumsum(1)[..., :3], lengths)


@pytest.mark.parametrize(
    ("peeks", "model"),
    [
        ("to the end", lambda x: x.flip(1).cumsum(1).flip(1)[..., :3]),
        ("one step ahead", lambda x: torch.roll(x, -1, 1)[..., :3]),
        ("at the last step", lambda x: x[:, -1:, :3].expand(-1, x.shape[1], -1)),
        ("at the mean of all", lambda x: x[..., :3] - 0.01 * x.mean(1, keepdim=True)[..., :3]),
        ("at the batch", lambda x: x[..., :3] - x.mean((0, 1))[:3]),
        ("in the middle alone", lambda x: peek(x, x.shape[1] // 2 - 1)),
        ("before the end alone", lambda x: peek(x, x.shape[1] - 2)),
    ],
)
def test_a_model_that_sees_the_future_fails_the_audit(peeks, model):
    with pytest.raises(PredictionError, match=r"not causal: changing the inputs from step \d+ on"):
        audit(model)


def test_a_bidirectional_model_fails_the_audit_at_two_steps_too():
    with pytest.raises(PredictionError, match="not causal"):
        audit(lambda x: x.flip(1).cumsum(1).flip(1)[..., :3], [2, 2, 2, 2])


def test_the_audit_leaves_the_inputs_as_they_were():
    examples = tapes([6, 6])
    batch = TAPE.batch(examples)
    before = batch.inputs.inputs.clone()
    TAPE.audit(lambda inputs: tape.Prediction(inputs.inputs[..., :3]), batch)
    assert torch.equal(batch.inputs.inputs, before)


def test_the_audit_names_a_wrong_type():
    with pytest.raises(PredictionError, match="returned a Tensor"):
        TAPE.audit(lambda inputs: inputs.inputs, TAPE.batch(tapes([3])))


# Padding

lengths = st.lists(st.integers(1, 7), min_size=1, max_size=5)
FAMILY_EXAMPLES = [(TRANSDUCTION, sources), (TAPE, tapes)]


@pytest.mark.parametrize(("family", "make"), FAMILY_EXAMPLES, ids=["transduction", "tape"])
@given(first=lengths, second=lengths, seed=st.integers(0, 100))
def test_joining_examples_changes_none_of_them(family, make, first, second, seed):
    a, b = make(first, seed), make(second, seed + 1)
    joined = family.concatenate([a, b])
    assert len(joined) == len(first) + len(second)
    assert joined.sizes.tolist() == first + second
    assert equal(family.trim(joined.take(slice(0, len(first)))), family.trim(a))
    assert equal(family.trim(joined.take(slice(len(first), None))), family.trim(b))
    for row in range(len(first)):
        alone = family.trim(a.take(slice(row, row + 1)))
        assert equal(family.trim(joined.take(slice(row, row + 1))), alone)


@pytest.mark.parametrize(("family", "make"), FAMILY_EXAMPLES, ids=["transduction", "tape"])
@given(lengths=lengths, seed=st.integers(0, 100))
def test_trimming_is_idempotent_and_removes_padding_alone(family, make, lengths, seed):
    examples = make(lengths, seed)
    trimmed = family.trim(examples)
    assert equal(family.trim(trimmed), trimmed)
    for side in ("inputs", "targets"):
        for name, array in getattr(examples, side).items():
            assert getattr(trimmed, side)[name].sum() == array.sum()  # what went was zeros
    batch = family.batch(examples)
    assert isinstance(batch, Batch)
    assert len(batch) == len(lengths)
    wide = {name: tensor.shape[1] for name, tensor in vars(batch.inputs).items() if tensor.dim() > 1}
    assert set(wide.values()) == {max(lengths)}


def test_batches_have_the_types_that_the_family_states():
    source = TRANSDUCTION.batch(sources([2, 3]))
    assert {t.dtype for t in (source.inputs.source, source.inputs.source_length, source.targets.target)} == {
        torch.int64
    }
    steps = TAPE.batch(tapes([2, 3]))
    assert steps.inputs.inputs.dtype == steps.targets.bits.dtype == torch.float32
    assert steps.inputs.length.dtype == torch.int64
    assert steps.targets.answer.dtype == torch.bool


@pytest.mark.parametrize(("family", "make"), FAMILY_EXAMPLES, ids=["transduction", "tape"])
def test_a_model_that_writes_into_its_inputs_does_not_change_the_examples(family, make):
    examples = make([4, 4], 0)
    kept = make([4, 4], 0)
    batch = family.batch(examples.take(slice(0, 2)))
    for record in (batch.inputs, batch.targets):
        for tensor in vars(record).values():
            tensor.zero_()
    assert equal(examples, kept)


def test_a_batch_moves_as_a_whole():
    batch = TAPE.batch(tapes([2, 3])).to("meta")
    assert {t.device.type for record in (batch.inputs, batch.targets) for t in vars(record).values()} == {"meta"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.inputs.length = torch.zeros(2)


def test_stored_parts_of_different_width_are_joined_with_zeros_behind():
    parts = [{"tokens": np.array([[5, 2]], np.uint8)}, {"tokens": np.array([[6, 7, 8, 2], [4, 2, 0, 0]], np.uint8)}]
    joined = TRANSDUCTION.join(parts)["tokens"]
    assert joined.tolist() == [[5, 2, 0, 0], [6, 7, 8, 2], [4, 2, 0, 0]]
    assert joined.dtype == np.uint8
    flat = TAPE.join([{"logits": np.array([1, 2], np.uint8)}, {"logits": np.array([3], np.uint8)}])["logits"]
    assert flat.tolist() == [1, 2, 3]
    assert flat.dtype == np.uint8


def test_pads_are_put_at_the_end_of_every_axis_but_the_first():
    a, b = np.ones((1, 2, 3)), np.ones((2, 3, 1))
    joined = pad_concatenate([a, b], -1)
    assert joined.shape == (3, 3, 3)
    assert (joined[0, :2, :3] == 1).all()
    assert (joined[1:, :3, :1] == 1).all()
    assert (joined == 1).sum() == 6 + 6
    assert (joined == -1).sum() == 27 - 12


@pytest.mark.parametrize(
    ("field", "at", "value", "problem"),
    [
        ("length", 2, 0, "example 2 has a tape of length 0; it has at least 1 step"),
        ("length", 1, 1, "example 1 has no answered step within its tape"),
        ("length", 1, 3, "example 1 has an answered step after the end of its tape"),
        ("inputs", (1, 0, 0), np.nan, "example 1 has an input that is not finite"),
        ("inputs", (0, 0, 0), np.inf, "example 0 has an input that is not finite"),
        ("bits", (2, 5, 1), 1.5, r"example 2 has a target bit outside \[0, 1\]"),
        ("bits", (2, 5, 1), -1e-6, r"example 2 has a target bit outside \[0, 1\]"),
        ("bits", (0, 1, 0), np.nan, r"example 0 has a target bit outside \[0, 1\]"),
    ],
)
def test_tapes_that_no_task_may_hold_are_refused(field, at, value, problem):
    examples = tapes([2, 4, 6])
    TAPE.check_examples(examples)
    side = examples.inputs if field in examples.inputs else examples.targets
    side[field] = side[field].copy()
    side[field][at] = value
    with pytest.raises(UserError, match=problem):
        TAPE.check_examples(examples)


def test_a_task_that_holds_such_a_tape_is_refused_by_its_split():
    class Faulty(type(get_task("ntm/copy"))):
        """Doubles its bits."""

        name = "toy/doubled"

        def generate(self, rng, size, count, role):
            examples = super().generate(rng, size, count, role)
            examples.targets["bits"] *= 2
            return examples

    with pytest.raises(UserError, match=r"split test of toy/doubled: example 0 has a target bit outside \[0, 1\]"):
        Faulty().load("test")
