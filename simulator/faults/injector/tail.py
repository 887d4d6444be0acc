"""The lines by which a log has grown since one looked last."""

from __future__ import annotations

from pathlib import Path

__all__ = ["Tail"]


class Tail:
    """Reads a log piece by piece, so that a long one is not read again at every look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._position = 0

    def read(self) -> list[str]:
        """The lines that have come, and as much of the last one as there is; a carriage return ends a line too."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read()
        except FileNotFoundError:
            return []
        if not data:
            return []
        self._position += len(data)
        text = self._rest + data
        self._rest = text[max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 :]
        return text.decode(errors="replace").splitlines()
