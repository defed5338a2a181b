"""An independent translator of ``seq2seq/translate``: it parses the words of a sentence and writes the translation.

Written from the rules of the languages, not from the generator: it sees no structure, only text.
"""

from dataclasses import dataclass

ANIMATE = set(
    "dog cat horse child woman man king queen doctor farmer baker sailor poet thief judge nurse bird wolf".split()
)
MASCULINE = set(
    "dog horse woman king doctor baker poet judge bird house book ship tree clock garden bottle coat bell".split()
)
FEMININE = set(
    "cat child man queen farmer sailor thief nurse wolf river lamp stone table door bridge letter wheel map".split()
)
ADJECTIVES = set(
    "old young big small red blue green white black good bad new heavy light warm cold quiet odd rich poor".split()
)
INTRANSITIVE = set("sleep fall wait shine grow sing burn turn stop rest shake break run dance laugh stand".split())
PREPOSITIONS = set("near behind under with without beside".split())
ADVERBS = set("often never always slowly quickly gladly sadly again soon still alone today".split())
DETERMINERS = set("the a every this some these all".split())
BY_SENSE = set(
    (
        "see leave move keep call wash take feed fall grow turn stop old good heavy light warm poor with behind beside"
    ).split()
)


@dataclass
class Noun:
    feminine: bool
    plural: bool
    animate: bool


def sense(word: str, noun: Noun) -> str:
    return word + ("2" if word in BY_SENSE and noun.animate else "")


class Translator:
    """Recursive descent over the words; every method returns target words and, for a noun phrase, its agreement."""

    def __init__(self, sentence: str):
        self.words = sentence.split()
        self.at = 0

    @property
    def next(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self) -> str:
        self.at += 1
        return self.words[self.at - 1]

    def sentence(self) -> list[str]:
        out, late = self.clause(), []
        while self.next:
            conjunction = self.take()
            assert conjunction in ("but", "while", "when", "because")
            out += late
            late = []
            if conjunction == "because":
                late = ["becausee"]
            else:
                out.append(conjunction + "e")
            out += self.clause()
        return out + late

    def clause(self) -> list[str]:
        subject, noun, many = self.noun_phrase()
        future = self.next == "will" and bool(self.take())
        negated = self.next == "not" and bool(self.take())
        adverb = [self.take() + "mente"] if self.next in ADVERBS else []
        middle = self.verb_and_object(noun, adverb, negated)
        place = []
        if self.next in PREPOSITIONS:
            preposition = self.take()
            where, place_noun, _ = self.noun_phrase()
            place = [*where, sense(preposition, place_noun) + "de"]
        return [*subject, *place, *middle, self.auxiliary(noun, many, future)]

    def verb_and_object(self, subject: Noun, adverb: list[str], negated: bool) -> list[str]:
        verb = self.take()
        if verb in INTRANSITIVE:
            target, governor, ending = [], subject, "ir"
        else:
            target, governor, _ = self.noun_phrase()
            target += ["om"] if governor.animate else []
            ending = "ar"
        translated = [sense(verb, governor) + ending]
        return [*target, *adverb, *(["note", *translated, "pas"] if negated else translated)]

    def auxiliary(self, noun: Noun, many: bool, future: bool) -> str:
        stem = "vad" if future else "ha"
        return stem + ("a" if noun.feminine else "o") + ("s" if noun.plural or many else "")

    def noun_phrase(self) -> tuple[list[str], Noun, bool]:
        determiner = self.take()
        assert determiner in DETERMINERS, determiner
        adjectives = []
        while self.next in ADJECTIVES:
            adjectives.append(self.take())
        form = self.take()
        plural = form not in MASCULINE | FEMININE
        lemma = form[:-1] if plural else form
        noun = Noun(lemma in FEMININE, plural, lemma in ANIMATE)
        vowel = "a" if noun.feminine else "o"
        article = {"a": "un" + vowel, "this": "est" + vowel, "these": f"est{vowel}s", "every": "cada", "all": "tode"}
        out = [article[determiner]] if determiner in article else []
        out.append(lemma + vowel + ("s" if plural else ""))
        out += [sense(adjective, noun) + vowel for adjective in reversed(adjectives)]
        if self.next == "and":
            self.take()
            rest, _, _ = self.noun_phrase()
            return [*out, "ande", *rest], noun, True
        if self.next == "that":
            self.take()
            out.append("qu" + vowel)
            if self.next in DETERMINERS:
                subject, inner, many = self.noun_phrase()
                verb = self.take()
                out += [*subject, sense(verb, noun) + "ar", self.auxiliary(inner, many, False)]
            else:
                out += [*self.verb_and_object(noun, [], False), self.auxiliary(noun, False, False)]
            out.append("fin")
        return out, noun, False


def translate(sentence: str) -> str:
    translator = Translator(sentence)
    out = translator.sentence()
    assert translator.at == len(translator.words)
    return " ".join(out)
