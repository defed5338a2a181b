"""The story models but MemN2N, each against a slow transcription of its equations."""

import numpy as np
import pytest
import torch
from batches import count_parameters
from story_batches import SPEC, story_batch, told

from baselines import story_lstm
from baselines.memnn import MemNN, ranking_loss
from baselines.ngram import NGram
from baselines.sentences import by_sentence, newest, running_text, unread
from baselines.story_lstm import StoryLSTM
from baselines.story_relation_network import StoryRelationNetwork
from baselines.story_transformer import StoryTransformer
from harness.errors import UserError
from harness.model import build

STORIES = [[[4, 5], [6], [7, 8, 9]], [[10, 4]]]


def weights(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """New weights, large enough for every term to count, in double precision."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.eval()
    return {name: value.detach().double().numpy() for name, value in model.named_parameters()}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# What they take from a batch


def test_newest_sentences():
    inputs = story_batch([3, 1], stories=STORIES).inputs
    words, real = newest(inputs, 2)
    assert words.tolist() == [[[7, 8, 9, 0], [6, 0, 0, 0]], [[10, 4, 0, 0], [0, 0, 0, 0]]]
    assert real.tolist() == [[True, True], [True, False]]
    assert unread(inputs, 2).tolist() == [1, 0]
    assert newest(inputs, 50)[0].shape == (2, 3, 4)


def test_running_text():
    inputs = story_batch([3, 1], stories=STORIES).inputs
    questions = [told(3)[1], told(1)[1]]
    text, length = running_text(inputs, 2)
    expected = [[6, 7, 8, 9, *questions[0]], [10, 4, *questions[1]]]
    assert length.tolist() == [len(row) for row in expected]
    assert [row[:count] for row, count in zip(text.tolist(), length.tolist(), strict=True)] == expected
    assert int(text[1, length[1] :].sum()) == 0


def test_weights_by_sentence():
    inputs = story_batch([3, 1], stories=STORIES).inputs
    seen = by_sentence(torch.tensor([[[0.7, 0.3]], [[1.0, 0.0]]]), inputs)
    assert torch.allclose(seen, torch.tensor([[[0, 0.3, 0.7]], [[1.0, 0, 0]]]))


# N-grams


def test_ngrams_of_sentences_that_share_a_word_with_the_question():
    """Told apart by 2^18 buckets, their number is that of the distinct N-grams, and their weights add up."""
    model = NGram(SPEC, n=3, buckets=2**18)
    p = weights(model)
    for length in (2, 5, 9):
        story, question, _, _ = told(length)
        grams = {
            tuple(sentence[at : at + n])
            for sentence in story
            if set(sentence) & set(question)
            for n in (1, 2, 3)
            for at in range(len(sentence) - n + 1)
        }
        inputs = story_batch([length], extra=2).inputs
        bucket, example = model.features(inputs)
        assert len(bucket) == len(grams)
        assert set(example.tolist()) <= {0}
        expected = p["b"] + sum((p["W"][b] for b in bucket.tolist()), np.zeros(5))
        np.testing.assert_allclose(model(inputs)[0].detach(), expected, atol=1e-5)


def test_an_ngram_has_one_bucket_wherever_it_stands():
    model = NGram(SPEC, n=2, buckets=2**18)
    word = told(1)[1][0]  # of the question
    seen = [
        set(model.features(story_batch([1], stories=[story]).inputs)[0].tolist())
        for story in ([[word, 4]], [[5], [word, 4, 9]], [[4, word]])
    ]
    assert len(seen[0]) == len({word, 4}) + 1
    assert seen[0] < seen[1]
    assert len(seen[0] & seen[2]) == len({word, 4})  # 1-grams, not the 2-gram


def test_ngrams_know_nothing_where_no_word_is_shared():
    model = NGram(SPEC)
    p = weights(model)
    other = next(word for word in range(4, 12) if word not in told(1)[1])
    np.testing.assert_allclose(model(story_batch([1], stories=[[[other]]]).inputs)[0].detach(), p["b"], atol=1e-6)


# LSTM


@pytest.mark.parametrize("at_once", [2, 32])
def test_lstm_reads_the_story_and_the_question_word_by_word(monkeypatch, at_once):
    monkeypatch.setattr(story_lstm, "READ_AT_ONCE", at_once)
    model = StoryLSTM(SPEC, embedding=3, hidden=4, memory=2)
    p = weights(model)
    lengths = (3, 1, 2, 9, 1)
    scores = model(story_batch(lengths).inputs).detach()
    for row, length in enumerate(lengths):
        story, question, _, _ = told(length)
        h, c = np.zeros(4), np.zeros(4)
        for word in [*(word for sentence in story[-2:] for word in sentence), *question]:
            a = p["embedding.weight"][word] @ p["lstm.W_x"] + h @ p["lstm.W_h"] + p["lstm.b"]
            i, f, o, g = np.split(a, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        np.testing.assert_allclose(scores[row], p["output.weight"] @ h + p["output.bias"], atol=1e-5)


# Relation network


def test_relation_network_is_the_sum_over_pairs():
    model = StoryRelationNetwork(SPEC, embedding=3, hidden=4, g=(5, 6), f=(7,), memory=3)
    p = weights(model)

    def lstm(name: str, words: list[int]) -> np.ndarray:
        h, c = np.zeros(4), np.zeros(4)
        for word in words:
            a = p["embedding.weight"][word] @ p[f"{name}.W_x"] + h @ p[f"{name}.W_h"] + p[f"{name}.b"]
            i, f, o, g = np.split(a, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        return h

    scores = model(story_batch([5, 2]).inputs).detach()
    for row, length in enumerate((5, 2)):
        story, question, _, _ = told(length)
        q, total = lstm("read_question", question), np.zeros(6)
        objects = [np.concatenate([lstm("read_sentence", s), np.eye(3)[age]]) for age, s in enumerate(story[::-1][:3])]
        W_1 = np.concatenate([p["first.weight"], p["second.weight"], p["asked.weight"]], 1)
        for o_i in objects:
            for o_j in objects:
                r = np.maximum(W_1 @ np.concatenate([o_i, o_j, q]) + p["asked.bias"], 0)
                total += np.maximum(p["g.0.weight"] @ r + p["g.0.bias"], 0)
        hidden = np.maximum(p["f.0.weight"] @ (total / 3) + p["f.0.bias"], 0)
        np.testing.assert_allclose(scores[row], p["output.weight"] @ hidden + p["output.bias"], rtol=1e-4, atol=1e-4)


def test_relation_network_in_bfloat16_is_close_in_training_and_the_same_in_evaluation():
    torch.manual_seed(3)
    full = StoryRelationNetwork(SPEC, g=(16, 16), f=(8,), memory=5)
    half = StoryRelationNetwork(SPEC, g=(16, 16), f=(8,), memory=5, precision="bf16")
    half.load_state_dict(full.state_dict())
    batch = story_batch([5, 2, 9])
    assert torch.equal(full.eval()(batch.inputs), half.eval()(batch.inputs))
    exact, rounded = (model.train().training_step(batch, 0) for model in (full, half))
    assert not torch.equal(exact, rounded)
    assert float(exact.detach()) == pytest.approx(float(rounded.detach()), rel=0.05)


def gradients(model: torch.nn.Module, batch) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model.training_step(batch, 0).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_a_phase_of_one_object_is_all_pairs_with_the_second_unread():
    """Same scores and same gradients; the matrix on the second object has none until its phase begins."""
    model = StoryRelationNetwork(SPEC, embedding=3, hidden=4, g=(5, 6), f=(7,), memory=3)
    weights(model)
    batch = story_batch([5, 2, 1])
    model.train().on_phase("one-object")
    rows = []
    model.g[0].register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    short, own = model(batch.inputs), gradients(model, batch)
    model.on_phase("all-pairs")
    full, every = model(batch.inputs), gradients(model, batch)
    assert rows == [3 + 2 + 1] * 2 + [9 + 4 + 1] * 2
    assert torch.allclose(short, full, rtol=1e-4, atol=1e-5)
    assert set(every) - set(own) == {"second.weight"}
    for name, gradient in own.items():
        assert torch.allclose(gradient, every[name], rtol=1e-4, atol=1e-5), name
    model.on_phase("one-object")
    assert torch.allclose(model.eval()(batch.inputs), full, rtol=1e-4, atol=1e-5)


def test_paper_sized_relation_network():
    """§4.2: LSTMs of 32 units, g of four layers of 256, f of 256 and 512 and the answers; 20 places."""
    lstm = 4 * 32 * (32 + 32 + 1)
    g = 256 * (2 * (32 + 20) + 32 + 1) + 3 * 256 * 257
    f = 256 * 257 + 512 * 257 + 5 * 513
    assert count_parameters(StoryRelationNetwork(SPEC)) == 12 * 32 + 2 * lstm + g + f


# Transformer


def test_transformer_sees_sentences_as_masked_sums_of_words_with_their_age():
    model = StoryTransformer(SPEC, width=4, heads=2, layers=1, memory=2)
    p = weights(model)
    x, mask = model.places(story_batch([3, 1]).inputs)
    assert mask[:, 0, 0].tolist() == [[True, True, True], [True, True, False]]
    for row, length in enumerate((3, 1)):
        story, question, _, _ = told(length)
        for place, words in enumerate([question, *story[::-1][:2]]):
            vector = sum(p["mask"][j] * p["embedding.weight"][word] for j, word in enumerate(words))
            np.testing.assert_allclose(x[row, place].detach(), vector + p["age.weight"][place], atol=1e-5)


def test_transformers_answer_is_read_at_the_question():
    """One layer, one head, written out."""
    model = StoryTransformer(SPEC, width=4, heads=1, layers=1, memory=5)
    p = weights(model)
    inputs = story_batch([3]).inputs
    x = model.places(inputs)[0][0].detach().double().numpy()  # (4,w)

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]

    normal = norm("layers.0.self_norm", x)
    key, value = np.split(normal @ p["layers.0.self_attention.W_KV.weight"].T, 2, axis=1)
    score = key @ (p["layers.0.self_attention.W_Q.weight"] @ normal[0]) / 2
    attention = np.exp(score) / np.exp(score).sum()
    y = x[0] + p["layers.0.self_attention.W_O.weight"] @ (attention @ value)
    inner = p["layers.0.feed_forward.1.weight"] @ norm("layers.0.feed_forward.0", y) + p["layers.0.feed_forward.1.bias"]
    y = y + p["layers.0.feed_forward.3.weight"] @ np.maximum(inner, 0) + p["layers.0.feed_forward.3.bias"]
    expected = p["output.weight"] @ norm("norm", y) + p["output.bias"]
    np.testing.assert_allclose(model(inputs)[0].detach(), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.explain(inputs)["attention"][0, 0].detach(), attention[:0:-1], atol=1e-5)


# Memory networks with supervised facts


class BySentence:
    """s_O and s_R of one story, in double precision, sentences by their age."""

    def __init__(self, model: MemNN, length: int):
        p = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
        story, question, self.answer, support = told(length)
        self.p, self.limit, d = p, model.distance, len(p["null"])
        self.ages = range(min(length, model.memory))
        self.supports = [length - 1 - place for place in support if length - 1 - place < model.memory]
        self.bags = [sum(p["sentences"][word] for word in sentence) for sentence in story[::-1]]
        x = sum(p["question"][word] for word in question)
        self.x_O, self.x_R, self.d = x[:d], x[d:], d

    def s_O(self, found: list[int]) -> dict[int | None, float]:
        x = self.x_O + sum((self.bags[age][self.d : 2 * self.d] for age in found), np.zeros(self.d))
        scores: dict[int | None, float] = {}
        for age in self.ages:
            if age in found:
                continue
            if found:
                distance = int(np.clip(age - found[-1], -self.limit, self.limit))
                time = self.p["from_fact"][distance + self.limit]
            else:
                time = self.p["since_question"][min(age, self.limit)]
            scores[age] = x @ (self.bags[age][: self.d] + time)
        if found:
            scores[None] = x @ self.p["null"]
        return scores

    def s_R(self, found: list[int]) -> np.ndarray:
        x = self.x_R + sum((self.bags[age][2 * self.d : 3 * self.d] for age in found), np.zeros(self.d))
        if found:
            x = x + self.bags[found[-1]][3 * self.d :]
        return self.p["answers"] @ x


@pytest.fixture
def memnn():
    model = MemNN(SPEC, width=6, facts=4, memory=6, distance=2, margin=0.3)
    weights(model)
    return model


def test_facts_are_found_one_after_the_other_until_the_null_fact(memnn):
    lengths = list(range(1, 10))
    scores, chosen = memnn(story_batch(lengths).inputs)
    counts = set()
    for row, length in enumerate(lengths):
        slow, found = BySentence(memnn, length), []
        while len(found) < 4:
            options = slow.s_O(found)
            best = max(options, key=lambda age: options[age])
            if best is None or len(options) == 0:
                break
            found.append(best)
            if len(found) == len(slow.ages):
                break
        counts.add(len(found))
        steps = chosen[row].nonzero().tolist()
        assert steps == [[step, age] for step, age in enumerate(found)]
        np.testing.assert_allclose(scores[row].detach(), slow.s_R(found), rtol=1e-4, atol=1e-4)
    assert len(counts) > 1


def test_every_wrong_fact_and_answer_must_score_less_by_a_margin(memnn):
    lengths = [1, 2, 3, 5, 9]
    total = 0.0
    for length in lengths:
        slow, found = BySentence(memnn, length), []
        for right in [*slow.supports, None]:
            options = slow.s_O(found)
            if right in options:
                own = options.pop(right)
                total += sum(max(0.0, 0.3 - own + other) for other in options.values())
            if right is not None:
                found.append(right)
        answers = slow.s_R(found)
        total += sum(
            max(0.0, 0.3 - answers[slow.answer] + other) for a, other in enumerate(answers) if a != slow.answer
        )
    loss = memnn.training_step(story_batch(lengths), 0)
    assert float(loss.detach()) == pytest.approx(total / len(lengths), rel=1e-4)


def test_ranking_loss_by_hand():
    scores = torch.tensor([[2.0, 1.95, -torch.inf, 3.0], [0.0, -1.0, -2.0, -3.0]])
    loss = ranking_loss(scores, torch.tensor([0, 0]), 0.1)
    assert loss.tolist() == pytest.approx([0.05 + 1.1, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (NGram, {"n": 0}, "n = 0 is not valid: a whole number, 1 or more"),
        (StoryLSTM, {"memory": 0}, "memory = 0 is not valid"),
        (MemNN, {"facts": 0}, "facts = 0 is not valid"),
        (StoryTransformer, {"width": 10, "heads": 4}, "width = 10 is not valid: it must be a multiple of heads = 4"),
        (StoryRelationNetwork, {"precision": "fp8"}, "precision = 'fp8' is not valid: choose one of fp32, bf16"),
    ],
)
def test_settings_that_are_not_valid_are_named(kind, settings, message):
    with pytest.raises(UserError, match=message):
        build(kind, SPEC, settings, "row")
