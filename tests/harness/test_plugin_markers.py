"""What the plugin takes of its markers, and says of a wrong one."""

from __future__ import annotations

import pytest

from tests.harness._inside import run_inside

MARKED = """
import pytest

@pytest.mark.{marker}
def test_it({argument}): pass
"""


def _run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_sample=text)
    return run_inside(pytester, *options)


# Marker, argument, and what is said of it.
WRONG = (
    ("cluster(worker=2)", "", "@pytest.mark.cluster is for the fixture `cluster`, which test_it does not use*"),
    ('strategies("mirrored-2")', "tmp_path", "@pytest.mark.strategies is for the fixture `strategy`*"),
    ('scripts("train.py")', "", "@pytest.mark.scripts is for the fixture `script`*"),
    ("strategies()", "strategy", 'strategies takes names*write strategies("mirrored-2")'),
    ('strategies("miror-2")', "strategy", "strategy 'miror-2' is unknown; did you mean mirrored-2?*"),
    ('strategies("mirrored-2", full=("miror-2",))', "strategy", "strategy 'miror-2' is unknown*"),
    ('strategies(["mirrored-2"])', "strategy", "each name stands by itself, not in a list*"),
    ('strategies("mirrored-2", ful=("mirrored-4",))', "strategy", "strategies takes names*"),
    ('strategies("mirrored-2", full="mirrored-4")', "strategy", "strategies takes names*"),
    ("scripts()", "script", "scripts takes commands*"),
    ("""scripts("train.py 'a")""", "script", "scripts takes commands*No closing quotation"),
)


def test_a_wrong_marker_is_one_line_with_its_place(pytester: pytest.Pytester) -> None:
    """Without a frame of who found it."""
    names = [f"test_{number:02}" for number in range(len(WRONG))]
    texts = [MARKED.format(marker=marker, argument=argument) for marker, argument, _ in WRONG]
    pytester.makepyfile(**dict(zip(names, texts, strict=True)))
    result = run_inside(pytester)
    result.assert_outcomes(errors=len(WRONG))
    for name, (_, _, said) in zip(names, WRONG, strict=True):
        result.stdout.fnmatch_lines([f"*ERROR collecting {name}.py*", f"{name}.py:3: {said}"], consecutive=True)
    assert "raise " not in result.stdout.str()


SHAPES = """
import pytest

@pytest.mark.cluster(2)
def test_by_place(cluster): pass

@pytest.mark.cluster(worker="two")
def test_no_number(cluster): pass

def test_nothing(strategy): pass
"""


def test_a_wrong_shape_is_one_line_with_its_place(pytester: pytest.Pytester) -> None:
    """A number without its job made a cluster without workers."""
    result = _run(pytester, SHAPES)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_by_place*",
            "test_sample.py:3: @pytest.mark.cluster takes each number with the name of its job, not 2; *",
            "*ERROR at setup of test_no_number*",
            "test_sample.py:6: worker='two' is not a task count; *",
            "*ERROR at setup of test_nothing*",
            "test_sample.py:9: the fixture `strategy` needs names; *",
        ],
        consecutive=True,
    )


ALLOWED = """
import pytest

pytestmark = pytest.mark.cluster(worker=2)

def test_of_the_module(): pass

@pytest.mark.strategies("mirrored-2")
class TestAll:
    def test_without(self): pass
    def test_with(self, strategy): pass

@pytest.mark.cluster(worker=1)
def test_that_asks_itself(request): pass

@pytest.fixture
def asking(request): pass

@pytest.mark.cluster(worker=1)
def test_whose_fixture_asks(asking): pass

@pytest.mark.usefixtures("strategy")
@pytest.mark.strategies("mirrored-2")
def test_without_its_value(): pass

@pytest.mark.cluster
@pytest.mark.cluster(size=3)
def test_of_another_project(): pass
"""


def test_a_marker_without_its_fixture_may_be_for_others(pytester: pytest.Pytester) -> None:
    """Of a module or a class, where the fixture is asked for by name, or of another project."""
    _run(pytester, ALLOWED).assert_outcomes(passed=7)


LATER = """
import pytest

@pytest.mark.strategies(full=("mirrored-2",))
def test_later(strategy): pass
"""


@pytest.mark.parametrize(("profile", "outcomes"), [("quick", {"deselected": 1}), ("full", {"passed": 1})])
def test_strategies_of_the_full_profile_alone(
    profile: str, outcomes: dict[str, int], pytester: pytest.Pytester
) -> None:
    """They are left to it as tests marked `full` are, and the matrix has no row of them."""
    result = _run(pytester, LATER, f"--profile={profile}")
    result.assert_outcomes(**outcomes)
    assert ("lockstep matrix" in result.stdout.str()) is ("passed" in outcomes)
