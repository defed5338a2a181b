from harness.options import expand


def test_seeds_may_be_listed_after_one_option():
    assert expand(["run", "a", "--seeds", "0", "1", "--task", "t"]) == [
        *("run", "a", "--seeds", "0", "--seeds", "1", "--task", "t")
    ]
    assert expand(["--seeds", "x"]) == ["--seeds", "x"]
    assert expand(["--seeds"]) == ["--seeds"]
