"""What probes show: how many forms were tried under each strategy and circumstance, and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.pages import table as markdown
from tools.probing.inventory import Inventory
from tools.probing.kinds import KINDS
from tools.probing.running import Probe, Probed


def coverage(probes: Sequence[Probe], results: Iterable[Probed]) -> str:
    """A row for each kind and circumstance, a column for each strategy: forms tried of those that there are."""
    done = {result.name: result for result in results}
    strategies = sorted({probe.strategy for probe in probes})
    rows = []
    for kind, package, circumstance in sorted({(each.row, each.package, each.circumstance) for each in probes}):
        cells = []
        for strategy in strategies:
            here = [
                probe
                for probe in probes
                if (probe.row, probe.package, probe.circumstance, probe.strategy)
                == (kind, package, circumstance, strategy)
            ]
            cells.append(_cell(here, [done[probe.name] for probe in here if probe.name in done]))
        rows.append((kind, package, circumstance, *cells))
    return markdown(("kind", "Keras", "circumstance", *strategies), rows)


def _cell(probes: Sequence[Probe], results: Sequence[Probed]) -> str:
    forms = sum(len(probe.forms) for probe in probes)
    tried = sum(len(result.forms) for result in results)
    if not forms:
        return "does not apply"
    if not tried:
        return "not run"
    counts = Counter(finding.outcome for result in results for finding in result.findings)
    told = [
        f"{tried} of {forms}" if tried < forms else str(forms),
        *(f"{counts[each]} {each}" for each in sorted(counts)),
    ]
    return ", ".join(told)


def findings(results: Iterable[Probed]) -> Iterator[str]:
    """A line for each form of which nobody knows why; then one for each reason that is known."""
    found = [(result.name.rpartition("/")[0], finding) for result in results for finding in result.findings]
    for where, finding in sorted(found, key=lambda each: (each[0], each[1].form)):
        if finding.is_open:
            first = finding.text.strip().partition("\n")[0]
            yield f"- {where}, `{finding.form}`: {finding.outcome}, {first}"
    for outcome, text in sorted({(each.outcome, each.text) for _, each in found if not each.is_open}):
        yield f"- {outcome}: {text}"


def formless(inventories: Mapping[str, Mapping[str, Inventory]]) -> Iterator[str]:
    """The public classes that no form makes, and why."""
    reasons = {name: why for kind in KINDS.values() for name, why in kind.unmade.items()}
    for package, of_package in inventories.items():
        by_module: dict[tuple[str, ...], set[str]] = {}
        for inventory in of_package.values():
            by_module.setdefault(inventory.classes, set()).update({form.partition(":")[0] for form in inventory.forms})
        for classes, made in by_module.items():
            if left := [name for name in classes if name not in made]:
                told = (f"`{name}`" + (f" ({reasons[name]})" if name in reasons else "") for name in left)
                yield f"- {package}: {', '.join(told)}"


def refused(inventories: Mapping[str, Mapping[str, Inventory]]) -> Iterator[str]:
    """How many combinations of drawn arguments were left out."""
    number = sum(inventory.refused for of_package in inventories.values() for inventory in of_package.values())
    if number:
        yield f"- {number} combinations of drawn arguments are refused on one device, and are not tried."
