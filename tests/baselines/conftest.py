import pytest
import torch

from harness.families import pointing, tape, transduction


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def token_spec() -> transduction.Spec:
    return transduction.Spec(
        max_train_size=6, max_test_size=9, source_vocabulary=13, target_vocabulary=13, output_slope=1.5, output_offset=5
    )


@pytest.fixture
def tape_spec() -> tape.Spec:
    return tape.Spec(max_train_size=4, max_test_size=8, input_channels=5, output_bits=4)


@pytest.fixture
def hull_spec() -> pointing.Spec:
    return pointing.Spec(
        max_train_size=6,
        max_test_size=9,
        dimensions=2,
        permutation=False,
        has_stop=True,
        output_slope=1,
        output_offset=2,
    )


@pytest.fixture
def tour_spec() -> pointing.Spec:
    return pointing.Spec(
        max_train_size=6,
        max_test_size=9,
        dimensions=2,
        permutation=True,
        has_stop=False,
        output_slope=1,
        output_offset=0,
    )
