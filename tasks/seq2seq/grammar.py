"""A synthetic language pair: sentences of an exact length, and the one right translation of each.

The source language puts the verb between subject and object, adjectives before nouns, and marks number on nouns alone.
The target language puts the verb last and adjectives after nouns, has two genders, and closes every clause with an
auxiliary that agrees with the clause's subject, however far away that stands.

A structure (which word class stands where, which noun governs which word) is drawn from ``GRAMMAR``, where symbols in
capitals expand and those in small letters are words; words are then filled in for many sentences at once.
"""

from bisect import bisect
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.random import RandomState

from harness.families.transduction import EOS, PAD
from tasks.seq2seq.lexicon import (
    AUXILIARY,
    CLASSES,
    CLOSING,
    DETERMINERS_BY_NUMBER,
    FIRST,
    GOVERNOR_KINDS,
    LOOKUP,
    NEGATION,
    OBJECT,
    WORD,
)

CLASS_INDEX = {name: index for index, name in enumerate(CLASSES)}
FIRST_OF_CLASS = np.array([FIRST[name] for name in CLASSES])
SIZE_OF_CLASS = np.array([len(words) for words in CLASSES.values()])

DEPTH = 2
"""That-clauses inside one another, at most."""

Symbols = tuple[str, ...]
Option = TypeVar("Option")


def _noun_phrase(depth: int) -> dict[str, list[tuple[float, Symbols]]]:
    """Return the rules of noun phrases that may hold ``depth`` that-clauses inside one another.

    A list never begins with a that-clause, so that ``and`` always joins the nearest noun.
    """
    own, inner = f"NP{depth}", f"NP{depth - 1}"
    rules: dict[str, list[tuple[float, Symbols]]] = {own: [(6, ("B",)), (1, ("B", "and", own))]}
    if depth:
        rules[own].append((2, ("B", f"R{depth}")))
        rules[f"R{depth}"] = [(1, ("that", "vi")), (2, ("that", "vt", inner)), (2, ("that", inner, "vt"))]
    return rules


GRAMMAR: dict[str, list[tuple[float, Symbols]]] = {
    "S": [(4, ("C",)), (3, ("C", "conj", "S")), (1, ("C", "because", "S"))],  # sentence
    "C": [(1, (f"NP{DEPTH}", "VP"))],  # clause
    "VP": [(4, ("VN",)), (1, ("will", "VN"))],  # verb phrase, by what stands before the verb
    "VN": [(5, ("VA",)), (1, ("not", "VA"))],
    "VA": [(3, ("V",)), (1, ("adv", "V"))],
    "V": [(2, ("vi",)), (1, ("vi", "P")), (5, ("vt", f"NP{DEPTH}")), (2, ("vt", f"NP{DEPTH}", "P"))],
    "P": [(1, ("prep", f"NP{DEPTH}"))],  # place, always the clause's, never a noun's
    "B": [(5, ("det", "n")), (3, ("det", "adj", "n")), (1, ("det", "adj", "adj", "n"))],  # base
    **{symbol: rules for depth in range(DEPTH + 1) for symbol, rules in _noun_phrase(depth).items()},
}
"""The whole syntax of the source, each right-hand side with its weight."""


@cache
def weight(symbols: Symbols, length: int) -> float:
    """Return the summed probability of all ways to write ``symbols`` in ``length`` words."""
    if len(symbols) > 1:
        return sum(weight(symbols[:1], k) * weight(symbols[1:], length - k) for k in range(1, length))
    if symbols[0] not in GRAMMAR:
        return float(length == 1)
    rules = GRAMMAR[symbols[0]]
    return sum(w * weight(body, length) for w, body in rules if len(body) <= length) / sum(w for w, _ in rules)


@cache
def spans(symbols: Symbols, length: int) -> tuple[list[float], list[int]]:
    """Return cumulative weights and the numbers of words that the first of ``symbols`` may take."""
    weights = [weight(symbols[:1], k) * weight(symbols[1:], length - k) for k in range(1, length)]
    return list(accumulate(weights)), list(range(1, length))


@cache
def bodies(symbol: str, length: int) -> tuple[list[float], list[Symbols]]:
    """Return cumulative weights and the right-hand sides of ``symbol`` in ``length`` words."""
    rules = [(w * weight(body, length), body) for w, body in GRAMMAR[symbol] if len(body) <= length]
    return list(accumulate(w for w, _ in rules)), [body for _, body in rules]


class Item(NamedTuple):
    """A target word in the making: it comes in a ``way`` from the source position ``word``, beside a ``governor``."""

    way: int
    word: int
    governor: int


class Phrase(NamedTuple):
    """A noun phrase: its target items, the position of its (first) noun, and whether it is a list, hence plural."""

    items: list[Item]
    head: int
    listed: bool


class Structure:
    """A sentence of ``length`` words without its words, drawn from the grammar.

    ``classes`` names the word class of every source position; ``nouns`` the position of the noun that a determiner
    belongs to (its own position for other words); ``items`` is the target.
    """

    def __init__(self, rng: RandomState, length: int):
        self._rng = rng
        self.classes: list[str] = []
        self.nouns: list[int] = []
        self.items = self._sentence(length)

    def _choose(self, weighted: tuple[list[float], Sequence[Option]]) -> Option:
        cumulative, options = weighted
        return options[bisect(cumulative, self._rng.random_sample() * cumulative[-1])]

    def _expand(self, symbol: str, length: int) -> list[tuple[str, int]]:
        """Return the symbols below ``symbol`` with the number of words of each."""
        body, parts = self._choose(bodies(symbol, length)), []
        while len(body) > 1:
            taken = self._choose(spans(body, length))
            parts.append((body[0], taken))
            body, length = body[1:], length - taken
        return [*parts, (body[0], length)]

    def _word(self, name: str) -> int:
        """Write a word of class ``name`` and return its position."""
        self.classes.append(name)
        self.nouns.append(len(self.nouns))
        return len(self.nouns) - 1

    def _plain(self, name: str) -> Item:
        """Write a word whose translation needs no governor."""
        position = self._word(name)
        return Item(WORD, position, position)

    def _sentence(self, length: int) -> list[Item]:
        """``because`` goes to the end of the clause that it introduces; other conjunctions stay where they are."""
        parts = self._expand("S", length)
        items = self._clause(parts[0][1])
        closing: list[Item] = []
        while len(parts) == 3:
            conjunction = self._plain(parts[1][0])
            items += closing
            closing = [conjunction] if parts[1][0] == "because" else []
            items += [] if closing else [conjunction]
            parts = self._expand("S", parts[2][1])
            items += self._clause(parts[0][1])
        return items + closing

    def _clause(self, length: int) -> list[Item]:
        (noun_phrase, subject_length), (_, rest) = self._expand("C", length)
        subject = self._noun_phrase(noun_phrase, subject_length)
        return subject.items + self._verb_phrase(rest, subject)

    def _verb_phrase(self, length: int, subject: Phrase) -> list[Item]:
        """Source: [will] [not] [adverb] verb [object] [place]; target: place object adverb not verb not auxiliary."""
        before: dict[str, Item] = {}
        parts = self._expand("VP", length)
        while parts[-1][0] in GRAMMAR and parts[-1][0].startswith("V"):
            before |= {name: self._plain(name) for name, _ in parts[:-1]}
            parts = self._expand(*parts[-1])
        verb, place, target = self._word(parts[0][0]), [], None
        for symbol, words in parts[1:]:
            if symbol == "P":
                place = self._place(words)
            else:
                target = self._noun_phrase(symbol, words)
        items = place + self._governed(verb, target, subject.head, [before["adv"]] if "adv" in before else [], before)
        return [*items, auxiliary(subject, future="will" in before)]

    def _governed(
        self, verb: int, target: Phrase | None, subject: int, adverb: list[Item], before: dict[str, Item]
    ) -> list[Item]:
        """Return object, adverb and verb, which is translated beside its object or, having none, its subject."""
        negation = before.get("not")
        items = [] if target is None else [*target.items, Item(OBJECT, target.head, target.head)]
        items += adverb
        items += [] if negation is None else [negation]
        items.append(Item(WORD, verb, subject if target is None else target.head))
        return items + ([] if negation is None else [Item(NEGATION, negation.word, negation.word)])

    def _place(self, length: int) -> list[Item]:
        """A preposition becomes a postposition."""
        (preposition, _), (symbol, words) = self._expand("P", length)
        position = self._word(preposition)
        phrase = self._noun_phrase(symbol, words)
        return [*phrase.items, Item(WORD, position, phrase.head)]

    def _noun_phrase(self, symbol: str, length: int) -> Phrase:
        parts = self._expand(symbol, length)
        base = self._base(parts[0][1])
        if len(parts) == 3:
            conjunction = self._plain("and")
            rest = self._noun_phrase(*parts[2])
            return Phrase([*base.items, conjunction, *rest.items], base.head, listed=True)
        return Phrase(base.items + self._that_clause(*parts[1], base.head), base.head, False) if parts[1:] else base

    def _base(self, length: int) -> Phrase:
        """Determiner, adjectives, noun become determiner, noun, adjectives, the nearest first."""
        *before, head = [self._word(name) for name, _ in self._expand("B", length)]
        self.nouns[before[0]] = head
        determiner, *adjectives = [Item(WORD, position, head) for position in before]
        return Phrase([determiner, Item(WORD, head, head), *reversed(adjectives)], head, listed=False)

    def _that_clause(self, symbol: str, length: int, head: int) -> list[Item]:
        """The noun at ``head`` is the subject of the clause, or its object where a noun phrase comes first."""
        parts = self._expand(symbol, length)
        that, noun = self._word("that"), Phrase([], head, listed=False)
        if parts[1][0].startswith("v"):
            verb = self._word(parts[1][0])
            target = self._noun_phrase(*parts[2]) if parts[2:] else None
            items = [*self._governed(verb, target, head, [], {}), auxiliary(noun)]
        else:
            subject = self._noun_phrase(*parts[1])
            verb = self._word(parts[2][0])
            items = [*subject.items, Item(WORD, verb, head), auxiliary(subject)]
        return [Item(WORD, that, head), *items, Item(CLOSING, that, that)]


def auxiliary(subject: Phrase, *, future: bool = False) -> Item:
    """Return the auxiliary that agrees with ``subject``."""
    return Item(AUXILIARY + future + 2 * subject.listed, subject.head, subject.head)


def fill(structures: list[Structure], copies: int, rng: RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Fill each of ``n`` structures of one length with words, ``copies`` times.

    Returns source ``(copies,n,L)`` and target ``(copies,n,T)``, which ends in EOS and is padded.
    """
    number = len(structures)
    width = max(len(structure.items) for structure in structures)
    classes = np.array([[CLASS_INDEX[name] for name in structure.classes] for structure in structures])  # (n,L)
    nouns = np.array([structure.nouns for structure in structures])
    items = np.full((number, width, 3), -1)
    for row, structure in enumerate(structures):
        items[row, : len(structure.items)] = structure.items
    classes, nouns, items = (np.tile(a, (copies, *[1] * (a.ndim - 1))) for a in (classes, nouns, items))
    source = fill_source(classes, nouns, rng)
    target = write_target(source, items)
    return source.reshape(copies, number, -1), target.reshape(copies, number, -1)


def fill_source(classes: np.ndarray, nouns: np.ndarray, rng: RandomState) -> np.ndarray:
    """Draw words of ``classes (n,L)``; a determiner suits the number of its noun at ``nouns (n,L)``."""
    draws = rng.randint(0, 2**31 - 1, size=classes.shape)
    source = FIRST_OF_CLASS[classes] + draws % SIZE_OF_CLASS[classes]
    plural = (np.take_along_axis(source, nouns, axis=1) - FIRST["n"]) % 2
    determiners = FIRST["det"] + DETERMINERS_BY_NUMBER[plural, draws % DETERMINERS_BY_NUMBER.shape[1]]
    return np.where(classes == CLASS_INDEX["det"], determiners, source)


def write_target(source: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return the translations ``(n,T)`` of ``source (n,L)`` by ``items (n,W,3)``, a way of -1 for none."""
    way, word, governor = np.moveaxis(items, -1, 0)  # (n,W) each
    kind = GOVERNOR_KINDS[np.take_along_axis(source, governor.clip(0), axis=1)]
    written = np.where(way >= 0, LOOKUP[way, np.take_along_axis(source, word.clip(0), axis=1), kind], PAD)
    order = np.argsort(written == PAD, axis=1, kind="stable")  # close the gaps that vanished words leave
    target = np.pad(np.take_along_axis(written, order, axis=1), ((0, 0), (0, 1)), constant_values=PAD)
    lengths = (target != PAD).sum(1)
    target[np.arange(len(target)), lengths] = EOS
    return target[:, : lengths.max() + 1]
