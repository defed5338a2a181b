"""The words of the language pair of ``seq2seq/translate``, and how each is translated beside its governing noun.

How a target word looks may depend on its *governor*, the noun whose gender, number and animacy decide. Content words
map one to one, except those in ``TWO_SENSES``, whose translation beside an animate governor is not that beside a thing.
"""

import numpy as np

from harness.families.transduction import FIRST_SYMBOL

ANIMATE = "dog cat horse child woman man king queen doctor farmer baker sailor poet thief judge nurse bird wolf".split()
THINGS = (
    "house river book lamp ship stone tree table clock door garden bridge bottle letter coat wheel bell map".split()
)
NOUNS = [*ANIMATE, *THINGS]
"""By turns masculine and feminine."""
TRANSITIVE = (
    "see hear find love fear follow leave draw move hold keep want need know meet call paint wash lift pull push watch "
    "guard sell buy take bring show hide carry touch feed"
).split()
INTRANSITIVE = "sleep fall wait shine grow sing burn turn stop rest shake break run dance laugh stand".split()
ADJECTIVES = (
    "old young big small red blue green white black good bad new heavy light warm cold quiet odd rich poor"
).split()
ADVERBS = "often never always slowly quickly gladly sadly again soon still alone today".split()
PREPOSITIONS = "near behind under with without beside".split()
CONJUNCTIONS = "but while when".split()
DETERMINERS = "the a every this some these all".split()
DETERMINERS_BY_NUMBER = np.array([[0, 1, 2, 3], [0, 4, 5, 6]])
"""The determiners of a singular and of a plural noun."""
TWO_SENSES = frozenset(
    (
        "see leave move keep call wash take feed fall grow turn stop old good heavy light warm poor with behind beside"
    ).split()
)

CLASSES: dict[str, list[str]] = {
    "det": DETERMINERS,
    "n": [noun + ending for noun in NOUNS for ending in ("", "s")],
    "vt": TRANSITIVE,
    "vi": INTRANSITIVE,
    "adj": ADJECTIVES,
    "adv": ADVERBS,
    "prep": PREPOSITIONS,
    "conj": CONJUNCTIONS,
    **{word: [word] for word in ("because", "that", "and", "will", "not")},
}
"""Word classes in the order of their ids; a noun's forms alternate, singular first."""
SOURCE_WORDS = [word for words in CLASSES.values() for word in words]
FIRST = {name: FIRST_SYMBOL + SOURCE_WORDS.index(words[0]) for name, words in CLASSES.items()}
"""The id of each class's first word."""

GOVERNORS = 8
"""Kinds of governor: 1 for feminine, 2 for plural, 4 for animate, added up."""
WORD, AUXILIARY, OBJECT, NEGATION, CLOSING = 0, 1, 5, 6, 7
"""Ways in which a source word gives a target word: its translation; an auxiliary (+ 1 in the future, + 2 for a subject
that is a list, hence plural); the object marker; the second half of a negation; the end of a that-clause."""
WAYS = 8


def governor_kinds() -> np.ndarray:
    """Return the kind of governor that each source id is, ``(V,)``; 0 for all that are not nouns."""
    kinds = np.zeros(FIRST_SYMBOL + len(SOURCE_WORDS), np.int64)
    for index, noun in enumerate(NOUNS):
        first = FIRST["n"] + 2 * index
        kinds[first : first + 2] = index % 2 + 4 * (noun in ANIMATE) + np.array([0, 2])
    return kinds


def translate_word(word: str, name: str, governor: int) -> str:
    """Return the translation of ``word`` of class ``name`` beside a kind of governor; "" where it vanishes."""
    gender, number = "oa"[governor & 1], "s" if governor & 2 else ""
    if name == "det":
        inflected = {"a": f"un{gender}", "this": f"est{gender}", "these": f"est{gender}s"}
        return {**inflected, "every": "cada", "all": "tode"}.get(word, "")
    if name == "n":
        return f"{word if word in NOUNS else word.removesuffix('s')}{gender}{number}"
    if name == "that":
        return f"qu{gender}"
    if name == "will":
        return ""
    sense = "2" if word in TWO_SENSES and governor & 4 else ""
    return word + sense + {"vt": "ar", "vi": "ir", "adj": gender, "adv": "mente", "prep": "de"}.get(name, "e")


def derived_word(way: int, governor: int) -> str:
    """Return the target word of one of the other ways; "" where there is none."""
    if way == OBJECT:
        return "om" if governor & 4 else ""  # things take no marker
    if way in (NEGATION, CLOSING):
        return "pas" if way == NEGATION else "fin"
    future, listed = (way - AUXILIARY) & 1, (way - AUXILIARY) & 2
    return f"{'vad' if future else 'ha'}{'oa'[governor & 1]}{'s' if listed or governor & 2 else ''}"


def build_lookup() -> tuple[np.ndarray, list[str]]:
    """Return the table of target ids ``(WAYS, V, GOVERNORS)``, 0 where nothing is written, and the target words."""
    lookup = np.zeros((WAYS, FIRST_SYMBOL + len(SOURCE_WORDS), GOVERNORS), np.int64)
    ids: dict[str, int] = {}

    def identify(word: str) -> int:
        return ids.setdefault(word, FIRST_SYMBOL + len(ids)) if word else 0

    for name, words in CLASSES.items():
        for source, word in enumerate(words, FIRST[name]):
            for governor in range(GOVERNORS):
                kind = int(GOVERNOR_KINDS[source]) if name == "n" else governor  # a noun inflects by itself
                lookup[WORD, source, governor] = identify(translate_word(word, name, kind))
    for way in range(AUXILIARY, WAYS):
        for governor in range(GOVERNORS):
            lookup[way, :, governor] = identify(derived_word(way, governor))
    return lookup, list(ids)


GOVERNOR_KINDS = governor_kinds()
LOOKUP, TARGET_WORDS = build_lookup()
