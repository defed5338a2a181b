"""A row's numbers and the papers', in one table by test."""

import math
from types import SimpleNamespace

from harness.beside import beside, beside_table
from harness.registry import get_task

TASK = get_task("ntm/copy")
TESTS = ("test", "test-30", "test-50", "test-120")
BITS, WRONG = TASK.metrics[:2]


def cells(published: list[float], sources: list[str], mean: float = 2.0) -> dict[str, SimpleNamespace]:
    return {
        test: SimpleNamespace(mean=mean, median=mean + 1, published=value, published_source=source)
        for test, value, source in zip(TESTS, published, sources, strict=True)
    }


def found(row: str, own: dict[str, SimpleNamespace]):
    return beside(row, TESTS, [BITS, WRONG], lambda test, metric: own.get(test) if metric is WRONG else None)


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_several_numbers_of_a_paper_stand_below_ours_test_by_test():
    own = cells([0.5, math.nan, 1.5, 4.0], ["a", "", "a", "a"])
    text = beside_table(found("ntm", own), TESTS, lambda test: test.removeprefix("test-"), lambda s: f"({s})", "median")
    header, _, ours, theirs = rows(text)
    assert header == ["row", "metric", "whose", "test", "50", "120"]
    assert ours == ["`ntm`", "wrong bits per sequence", "ours, median", "3.00", "3.00", "3.00"]
    assert theirs == ["`ntm`", "wrong bits per sequence", "published(a)", "0.500", "1.50", "4.00"]


def test_numbers_of_several_sources_are_noted_one_by_one():
    own = cells([0.5, 1.0, 1.5, 4.0], ["a", "b", "a", "b"], mean=math.nan)
    text = beside_table(found("published only", own), TESTS, str, lambda s: f"({s})", "mean")
    _, _, theirs = rows(text)
    assert theirs[2:] == ["published", "0.500(a)", "1.00(b)", "1.50(a)", "4.00(b)"]


def test_a_number_or_two_make_no_table():
    assert found("ntm", cells([0.5, math.nan, math.nan, 4.0], ["a", "", "", "a"])) == []
    assert beside_table([], TESTS, str, str, "mean") == ""


def test_of_many_numbers_the_first_source_is_told():
    tests = tuple(f"test-{n}" for n in range(12))
    own = {t: SimpleNamespace(mean=1.0, published=1.0, published_source=f"a | also {t}") for t in tests}
    many = beside("row", tests, [BITS], lambda test, _: own[test])
    assert "published(a)" in beside_table(many, tests, str, lambda s: f"({s})", "mean")
