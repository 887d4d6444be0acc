"""What hunts show: a row for each training, with the plans until it was found by each profile, and the medians."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from tools.hunting.running import PROFILES, Hunted, guilty
from tools.pages import table as markdown


def _of(results: Iterable[Hunted], training: str, profile: str) -> list[Hunted]:
    return [result for result in results if result.name.startswith(f"{training}@{profile}/")]


def _trainings(results: Iterable[Hunted], kind: str) -> list[str]:
    names = dict.fromkeys(result.name.partition("@")[0] for result in results)
    return [name for name in names if name.partition(":")[2].startswith(kind)]


def _plans(found: Sequence[Hunted]) -> list[float]:
    """The plans until each was found; of those that were not found, more than any."""
    return [float("inf") if result.found is None else result.found for result in found]


def _median(found: Sequence[Hunted]) -> str:
    if not found:
        return "-"
    middle = statistics.median(_plans(found))
    return f"> {max(result.plans for result in found)}" if middle == float("inf") else f"{middle:g}"


def _missed(found: Sequence[Hunted]) -> str:
    missed = sum(result.found is None for result in found)
    return f" ({missed} of {len(found)} not)" if missed else ""


def table(results: Sequence[Hunted]) -> str:
    """A row for each weak training: what is wrong, and the median of plans by each profile."""
    rows = []
    for training in _trainings(results, "weak"):
        file, _, function = training.partition(":")
        line = (guilty(file, function) or ["-"])[0]
        cells = [_of(results, training, profile) for profile in PROFILES]
        told = [f"{_median(found)}{_missed(found)}" for found in cells]
        rows.append((function.removeprefix("weak_").replace("_", " "), f"`{line}`", *told))
    return markdown(("training", "guilty line", *PROFILES), rows)


def summary(results: Sequence[Hunted]) -> str:
    """The medians over all hunts of weak trainings, and what was said of strong ones."""
    weak, strong = _trainings(results, "weak"), _trainings(results, "strong")
    lines = []
    for profile in PROFILES:
        found = [result for training in weak for result in _of(results, training, profile)]
        if not found:
            continue
        most = max((result.found for result in found if result.found is not None), default=0)
        mean = statistics.mean(result.plans for result in found)
        lines.append(
            f"- `{profile}`: {len(found)} hunts of {len(weak)} weak trainings, median {_median(found)} plans until "
            f"found, mean {mean:.1f}, the most {most}{_missed(found) or ', all found'}; "
            f"{sum(result.seconds for result in found):.0f} s in all."
        )
    of_strong = [result for training in strong for result in _of(results, training, PROFILES[0])]
    if of_strong:
        accused = sum(result.found is not None for result in of_strong)
        plans = sum(result.plans for result in of_strong)
        lines.append(f"- {len(strong)} strong trainings: {accused} accused in {plans} plans of `{PROFILES[0]}`.")
    return "\n".join(lines)


def section(results: Sequence[Hunted]) -> str:
    """What a page shows."""
    seeds = len({result.name.rpartition("/")[2] for result in results})
    return f"{summary(results)}\n\nMedians of {seeds} seeds:\n\n{table(results)}"
