"""Tables that scenarios fill row by row, such as the truth table of loss reduction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec


class TableRow(msgspec.Struct, frozen=True):
    """One row of the table called `table`, as one test reports it: column to text."""

    table: str
    cells: dict[str, str]


class Table(msgspec.Struct, frozen=True):
    """All rows of one title, whatever tests and processes they came from; a cell that a row lacks is empty."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def lines(self) -> Iterator[str]:
        """The table as aligned text; its first line is the title."""
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        yield self.title
        for row in (self.columns, tuple("-" * width for width in widths), *self.rows):
            yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def gather(rows: Iterable[TableRow]) -> list[Table]:
    """One table for each title. Rows are sorted, as parallel tests report in any order, and equal ones stand once."""
    by_title: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        by_title.setdefault(row.table, []).append(row.cells)
    tables = []
    for title in sorted(by_title):
        columns = tuple(dict.fromkeys(name for cells in by_title[title] for name in cells))
        texts = {tuple(cells.get(name, "") for name in columns) for cells in by_title[title]}
        tables.append(Table(title, columns, tuple(sorted(texts))))
    return tables
