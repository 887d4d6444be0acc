"""Forty-eight short sentences about the weather at sea (0) and about bread (1), as integer tokens."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# Sentences are cut or padded with token 0 to this many tokens.
LENGTH = 8

SEA = """\
the wind backed to the north before dawn
a heavy swell came in from the west
fog lay over the harbour until noon
we reefed the sail as the gale rose
the tide turned and the boats came in
rain hid the lighthouse for an hour
low cloud and a falling glass mean wind
the sea was flat and the air was cold
a squall crossed the bay in ten minutes
spray froze on the rails all night
the storm broke the old sea wall
gulls went inland ahead of the gale
the harbour was calm after the storm
waves ran white over the sand bar
the north wind blew for three days
a light breeze filled the sail at noon
thunder rolled along the coast at dusk
the fog lifted and we saw the coast
high tide reached the road last night
cold rain fell on the grey water
the swell made the small boats roll
a warm wind came up from the south
ice closed the harbour in january
the tide was slow and the wind light
"""
BREAD = """\
the dough should rise for two hours
add salt to the flour before the water
knead the dough until it is smooth
a hot oven gives the loaf a crisp crust
rye flour makes a dark and heavy bread
let the loaf cool before you cut it
the starter needs flour and warm water
old yeast will not raise the dough
bake the rolls until the crust is brown
butter and honey go well on warm bread
a stone in the oven keeps the heat even
fold the dough four times in an hour
too much salt slows the yeast down
the crust cracked as the loaf cooled
white flour takes less water than rye
the baker lights the oven at three
shape the rolls and let them rise again
steam in the oven makes the crust shine
the bread was sour and full of seeds
weigh the flour and do not guess
a wet dough makes an open crumb
cover the dough with a damp cloth
the smell of fresh bread filled the house
cut the loaf with a long knife
"""


@dataclass(frozen=True)
class Corpus:
    """Sentence ids (int64, [n]), tokens (int32, [n, LENGTH]), topics (float32, [n, 1]), and how many tokens exist."""

    ids: np.ndarray[Any, Any]
    tokens: np.ndarray[Any, Any]
    topics: np.ndarray[Any, Any]
    vocabulary: int


@functools.cache
def load() -> Corpus:
    """Tokenize the sentences, the two topics alternating; token 0 is padding."""
    import numpy as np

    pairs = zip(SEA.splitlines(), BREAD.splitlines(), strict=True)
    sentences = [sentence.split() for pair in pairs for sentence in pair]
    words = sorted({word for sentence in sentences for word in sentence})
    number = {word: index + 1 for index, word in enumerate(words)}
    tokens = np.zeros((len(sentences), LENGTH), np.int32)
    for row, sentence in enumerate(sentences):
        cut = sentence[:LENGTH]
        tokens[row, : len(cut)] = [number[word] for word in cut]
    ids = np.arange(len(sentences))
    return Corpus(ids=ids, tokens=tokens, topics=(ids % 2).astype(np.float32)[:, None], vocabulary=len(words) + 1)
