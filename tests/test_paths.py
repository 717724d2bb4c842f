"""Few files lie between rows and a kernel, and a sketch and centers; CONTRIBUTING.md shows the rooms as they are."""

import pytest
import rooms
from paths import paths

#: files and calls at most: what was reached (docs/decisions/rooms.md), and room for another seed
MOST = {
    "fit(X) to the kernel that sums all rows": (25, 400),
    "a sketch of cells to centers": (22, 800),
    "a sketch of frequencies to centers": (37, 40_000),
}


@pytest.fixture(scope="module")
def found():
    return paths()


@pytest.mark.parametrize("name", MOST)
def test_paths_are_short(name, found):
    files, calls = MOST[name]
    assert len(found[name].calls) <= files
    assert found[name].calls.total() <= calls


def test_the_picture_of_the_rooms_is_that_of_the_contract():
    assert rooms.page(rooms.PAGE.read_text()) == rooms.PAGE.read_text()
