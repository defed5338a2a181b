"""Weston et al. 2015: "Towards AI-Complete Question Answering"; Weston, Chopra, Bordes 2015: "Memory Networks"."""

from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.optimisation import adam
from baselines.sentences import by_sentence, newest, unread
from harness.families import Batch
from harness.families.story import NO_SUPPORT, PAD, Inputs, Prediction, Spec


class Facts(NamedTuple):
    """The last sentences, newest first, as bags of words under the four dictionaries that see them, and which exist.

    ``candidate``, ``found``, ``told`` and ``final`` are ``(B,N,d)``, ``real (B,N) bool``.
    """

    candidate: Tensor  # U_O Φ_y(m_i): a sentence that may be chosen
    found: Tensor  # U_O Φ_x: one that was, on the side of the question
    told: Tensor  # U_R Φ_x: one that was, for the answer
    final: Tensor  # U_R Φ_x: beside it, of the one found last
    real: Tensor


class MemNN(pl.LightningModule):
    """Facts are chosen one after the other by a hard maximum, each with those before; then the answer (§3)::

        o_j = argmax_i s_O([x, m_o1, .., m_o(j-1)], m_i)      until the null fact wins    module O
        r   = argmax_w s_R([x, m_o1, .., m_ok], w)                                        module R
        s(x, y) = Φ_x(x)^T U^T U Φ_y(y)

    Φ are bags of words with three dictionaries: for the question, for facts beside it, for what is scored (module R has
    a fourth, see below). The number of facts adapts: a null fact m_∅ ends the search (adaptive memory, "AM", §3.1),
    after ``facts`` at the latest.

    It is taught the supporting facts: with f_1.. f_k in the data's order, then m_∅, every other sentence and every
    other answer must score less by a margin (Memory Networks, eq. 6-8)::

        Σ_j Σ_{m ≠ f_j} max(0, γ - s_O([x, f_1 ..], f_j) + s_O([x, f_1 ..], m)) + Σ_{w ≠ r} max(0, γ - s_R(r) + s_R(w))

    Deviations: a sentence's time enters as a learned vector of its distance from the question or, once a fact is found,
    from that, up to ``distance``, beside Φ_y (the paper compares candidates in pairs by who is older); the fact found
    last has a dictionary more for module R (of two rooms in one bag of words nobody could say where *she* is now, as in
    tasks 11 and 13, which the paper solves and does not say how); a fact is not chosen twice; all wrong candidates are
    summed, the paper samples; no N-grams and no matching features; Adam; the last ``memory`` sentences are read.
    """

    families = ("story",)
    version = 2

    def __init__(
        self,
        spec: Spec,
        *,
        width: int = 50,
        facts: int = 10,
        memory: int = 50,
        distance: int = 30,
        margin: float = 0.1,
        init: float = 0.1,
        learning_rate: float = 5e-3,
        decay_from: float = 0.3,
    ):
        super().__init__()
        for name, value in {"width": width, "facts": facts, "memory": memory, "distance": distance}.items():
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} = {value!r} is not valid: a whole number, 1 or more")
        self.facts, self.memory, self.distance, self.margin = facts, memory, distance, margin
        self.learning_rate, self.decay_from = learning_rate, decay_from
        self.question = nn.Parameter(torch.empty(spec.vocabulary, 2 * width))  # U_O Φ_x, then U_R Φ_x
        self.sentences = nn.Parameter(torch.empty(spec.vocabulary, 4 * width))  # as in Facts
        self.since_question = nn.Parameter(torch.empty(distance + 1, width))
        self.from_fact = nn.Parameter(torch.empty(2 * distance + 1, width))
        self.null = nn.Parameter(torch.empty(width))
        self.answers = nn.Parameter(torch.empty(spec.answers, width))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=init)

    def read(self, inputs: Inputs) -> tuple[Tensor, Tensor, Facts]:
        """Return the question for O and for R, ``(B,d)`` each, and the facts."""
        x_O, x_R = F.embedding_bag(inputs.question, self.question, mode="sum", padding_idx=PAD).chunk(2, 1)
        words, real = newest(inputs, self.memory)  # (B,N,W)
        bags = F.embedding_bag(words.flatten(0, 1), self.sentences, mode="sum", padding_idx=PAD)  # (BN,4d)
        candidate, found, told, final = bags.unflatten(0, words.shape[:2]).chunk(4, 2)
        return x_O, x_R, Facts(candidate, found, told, final, real)

    def scores(self, x: Tensor, facts: Facts, open_: Tensor, last: Tensor | None) -> Tensor:
        """Return s_O of the facts and of m_∅, ``(B,N+1)``; −∞ where ``open_ (B,N)`` says that one cannot be chosen.

        ``last (B,)``: the place of the fact found last; None before the first, when m_∅ cannot be chosen.
        """
        age = torch.arange(facts.real.shape[1], device=x.device)
        if last is None:
            times = (x @ self.since_question.T)[:, age.clamp(max=self.distance)]  # (B,N)
            null = x.new_full((len(x), 1), -torch.inf)
        else:
            distance = (age - last[:, None]).clamp(-self.distance, self.distance) + self.distance  # (B,N)
            times, null = (x @ self.from_fact.T).gather(1, distance), (x @ self.null)[:, None]
        own = (facts.candidate @ x[:, :, None])[:, :, 0] + times
        return torch.cat([own.masked_fill(~open_, -torch.inf), null], 1)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the margin ranking loss a question, with the right facts so far at every step."""
        x_O, x_R, facts = self.read(batch.inputs)
        open_, rows, loss, last = facts.real, torch.arange(len(x_O), device=x_O.device), x_O.new_zeros(()), None
        support = batch.targets.support[:, : self.facts]
        place = batch.inputs.story_length[:, None] - 1 - support  # (B,K), as ages
        taught = (support != NO_SUPPORT) & (place < facts.real.shape[1])
        order = (~taught).to(torch.uint8).argsort(dim=1, stable=True)  # those that the memory holds come first
        place, taught = place.gather(1, order), taught.gather(1, order)
        count = taught.sum(1)
        for step in range(int(count.max()) + 1):
            following = step < count  # (B,): has one fact more
            ended = (step == count) & (step > 0) & (count < self.facts)  # then m_∅ is right
            here = place[:, min(step, place.shape[1] - 1)].clamp(0, facts.real.shape[1] - 1)
            scores = self.scores(x_O, facts, open_, last)
            right = torch.where(following, here, scores.shape[1] - 1)
            loss = loss + (ranking_loss(scores, right, self.margin) * (following | ended)).sum()
            x_O = x_O + facts.found[rows, here] * following[:, None]
            x_R = x_R + facts.told[rows, here] * following[:, None]
            open_ = open_ & ~(F.one_hot(here, open_.shape[1]).bool() & following[:, None])
            last = here if last is None else torch.where(following, here, last)
        assert last is not None
        x_R = x_R + facts.final[rows, last] * (count > 0)[:, None]
        return (loss + ranking_loss(x_R @ self.answers.T, batch.targets.answer, self.margin).sum()) / len(x_O)

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the answers' scores ``(B,A)`` and the facts found, ``(B,K,N)`` of 0 and 1, K the most of the batch."""
        x_O, x_R, facts = self.read(inputs)
        open_, rows, last, found = facts.real, torch.arange(len(x_O), device=x_O.device), None, []
        going = torch.ones_like(rows, dtype=torch.bool)
        for _ in range(self.facts):
            best = self.scores(x_O, facts, open_, last).argmax(1)  # (B,)
            going = going & (best < open_.shape[1]) & open_.any(1)
            if not bool(going.any()):
                break
            here = best.clamp(max=open_.shape[1] - 1)
            x_O = x_O + facts.found[rows, here] * going[:, None]
            x_R = x_R + facts.told[rows, here] * going[:, None]
            chosen = F.one_hot(here, open_.shape[1]).bool() & going[:, None]  # (B,N)
            open_, last = open_ & ~chosen, here if last is None else torch.where(going, here, last)
            found.append(chosen.float())
        assert last is not None  # every story has a statement before its question
        x_R = x_R + facts.final[rows, last]
        return x_R @ self.answers.T, torch.stack(found, 1)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the answers' scores, and how many old sentences were not read."""
        return Prediction(self(inputs)[0], unread(inputs, self.memory))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return ``attention (B,K,S)``: 1 at the sentence chosen in each step, 0 behind the null fact."""
        return {"attention": by_sentence(self(inputs)[1], inputs)}

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, decay_from=self.decay_from)


def ranking_loss(scores: Tensor, right: Tensor, margin: float) -> Tensor:
    """Return Σ_{w ≠ r} max(0, γ - s(r) + s(w)), ``(B,)``, for ``scores (B,C)`` and ``right (B,)``; −∞ costs nothing."""
    own = scores.gather(1, right[:, None])
    cost = (margin - own + scores).clamp(min=0)
    return cost.scatter(1, right[:, None], 0.0).sum(1)
