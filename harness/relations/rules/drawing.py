"""Random numbers: from equal states everybody draws the same, and so not what the one device draws for all examples."""

from __future__ import annotations

from harness.relations.facts import Fact
from harness.relations.protocol import GraphStep, rule

_STATELESS = [
    "StatelessMultinomial",
    "StatelessRandomBinomial",
    "StatelessRandomGammaV2",
    "StatelessRandomGammaV3",
    "StatelessRandomNormal",
    "StatelessRandomNormalV2",
    "StatelessRandomPoisson",
    "StatelessRandomUniform",
    "StatelessRandomUniformFullInt",
    "StatelessRandomUniformFullIntV2",
    "StatelessRandomUniformInt",
    "StatelessRandomUniformIntV2",
    "StatelessRandomUniformV2",
    "StatelessTruncatedNormal",
    "StatelessTruncatedNormalV2",
    "StatelessParameterizedTruncatedNormal",
    "StatelessShuffle",
    "StatelessRandomGetKeyCounter",
    "StatelessRandomGetKeyCounterAlg",
    "StatelessRandomGetAlg",
]

_STATEFUL = [
    "RandomUniform",
    "RandomStandardNormal",
    "RandomUniformInt",
    "TruncatedNormal",
    "RandomShuffle",
    "Multinomial",
    "RandomGamma",
    "RandomPoisson",
    "RandomPoissonV2",
    "ParameterizedTruncatedNormal",
    "StatefulUniform",
    "StatefulStandardNormalV2",
    "StatefulUniformInt",
    "StatefulUniformFullInt",
    "StatefulTruncatedNormal",
    "NonDeterministicInts",
    "RngReadAndSkip",
    "RngSkip",
]


DRAWING = frozenset({*_STATELESS, *_STATEFUL})
"""Operations that draw: where these are not the one device's, no numbers of a run can be held against its numbers."""


@rule(*_STATELESS)
def _drawn(step: GraphStep) -> list[Fact]:
    count = max(1, len(step.node.shapes))
    if step.all_replicated():
        return [step.replicated(step.once(*step.ins, output=at), output=at) for at in range(count)]
    return [step.unknown("random numbers for the replica's own examples, from a state that every replica has")] * count


@rule(*_STATEFUL)
def _drawn_from_a_state(step: GraphStep) -> list[Fact]:
    count = max(1, len(step.node.shapes))
    return [step.unknown("random numbers that each replica draws for itself")] * count
