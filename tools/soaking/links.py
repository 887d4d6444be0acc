"""Measures what links do: `python -m tools.soaking.links SEED KIND...`, each kind one of `measuring.KINDS`."""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from random import Random

import msgspec

from simulator import Cluster, Link, Topology
from tools.soaking.measuring import Measured, loss
from tools.soaking.packets import answers, datagram_rate, datagrams, greetings, stream_rate

_PACKETS = 1000
# What has been taken ahead of a rate: 50 ms, and as much of a kernel's buffers and timers as was seen under load.
_AHEAD, _BEHIND = 1.15, 0.6
# A late wake-up of a busy machine, on top of a delay.
_LATE_SECONDS = 0.03


def _measure(kind: str, chance: Random) -> Measured:
    what, of, where = kind.split()
    cluster = partial(Cluster, Topology(worker=2), preload=(), timeout=50, network=where, seed=chance.randrange(1000))
    link = partial(Link, src="worker:0", dst="worker:1", one_way=True)
    with tempfile.TemporaryDirectory() as place:
        if what == "loss":
            share = chance.choice((0.02, 0.1, 0.2, 0.3))
            function = datagrams if of == "UDP" else greetings
            with cluster(links=[link(loss=f"{share:.0%}")]) as running:
                result = running.run(function, place, _PACKETS)
            came = result["worker:1" if of == "UDP" else "worker:0"].value
            return loss(of, share, _PACKETS, _PACKETS - came)
        if what == "rate":
            rate = chance.choice((1e6, 3e6))
            with cluster(links=[link(rate=f"{rate / 1e6:.0f}MB/s")]) as running:
                found = running.run(stream_rate if of == "TCP" else datagram_rate, place, int(rate))["worker:1"].value
            return Measured("rate", of, where, rate, found, _BEHIND * rate, _AHEAD * rate)
        delay = chance.choice((0.002, 0.01, 0.03))
        with cluster(links=[link(delay=f"{delay * 1e3:.0f}ms")]) as running:
            found = running.run(answers, place, 20)["worker:0"].value
        return Measured("delay", of, where, delay, found, delay, delay + _LATE_SECONDS)


def main() -> None:
    """Print all as JSON."""
    seed, *kinds = sys.argv[1:]
    chance = Random(int(seed))
    chance.random()
    began = time.monotonic()
    found = [_measure(kind, chance) for kind in kinds]
    sys.stderr.write(f"{len(found)} in {time.monotonic() - began:.1f} s\n")
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")


if __name__ == "__main__":
    main()
