"""Pulls the cable of a machine of the lab, as a command of whoever holds it: for faults of kind `cut`."""

from __future__ import annotations

import sys

from pyroute2 import IPRoute

from tests.simulator.lab.dial import enter


def main(keeper: int, number: int) -> None:
    """Take the hub's end of it down."""
    enter(keeper)
    links = IPRoute()
    links.link("set", index=links.link_lookup(ifname=f"port{number}")[0], state="down")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2].removeprefix("m")))
