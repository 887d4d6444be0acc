"""What a run and the process that leads it to the nodes of a Ray cluster say to each other, a line of JSON each."""

from __future__ import annotations

import msgspec


class SitesWanted(msgspec.Struct, frozen=True):
    """A site on each of these nodes, and its streams joined with a socket.

    Attributes:
        names: what the run calls the nodes.
        anywhere: any nodes will do, else each is the one of that name.
        sockets: of each; descriptors, which are inherited.
        control: a socket of the run's; inherited. All is over when it ends.
        site: the command of a site.
        folder: for files `NAME.why`, which say why a stream has ended.
    """

    names: tuple[str, ...]
    anywhere: bool
    sockets: tuple[int, ...]
    control: int
    site: tuple[str, ...]
    folder: str


class Joined(msgspec.Struct, frozen=True):
    """The sites are being started; or, `refused`, why none is."""

    refused: str = ""
