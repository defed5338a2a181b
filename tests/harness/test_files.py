"""A file is written whole or not at all."""

import os

import pytest

from harness.files import write_whole


def test_a_file_is_written_and_replaced(tmp_path):
    path = tmp_path / "b.txt"
    assert write_whole(path, b"old") == path
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in path.parent.iterdir()] == ["b.txt"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_stops_the_writing_leaves_the_old_file_alone(tmp_path, monkeypatch, failure):
    path = write_whole(tmp_path / "b.txt", b"old")

    def stop(*_):
        raise failure

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(type(failure) if isinstance(failure, OSError) else failure) as caught:
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["b.txt"]
    if isinstance(failure, OSError):
        assert caught.value.filename == str(path)


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"b\.txt"):
        write_whole(tmp_path / "file" / "b.txt", b"")
