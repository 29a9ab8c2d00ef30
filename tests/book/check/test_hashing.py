"""The checks of sparse/hashing: right answers pass, typical wrong ones get a message, junk survives."""

import math

import pytest
import torch

from attnledger.book import check


def right_bucket(x, R):
    return int(torch.cat([x @ R, -(x @ R)]).argmax())


def right_met(buckets, query, chunk):
    own = [t for t in range(query + 1) if buckets[t] == buckets[query]]
    first = max((len(own) - 1) // chunk - 1, 0) * chunk
    return own[first:-1]


def whole_bucket(buckets, query, chunk):
    return [t for t in range(query) if buckets[t] == buckets[query]]


def by_slot(buckets, query, chunk):
    order = sorted(range(len(buckets)), key=lambda t: buckets[t])
    return order[: order.index(query)]


def with_itself(buckets, query, chunk):
    return [*right_met(buckets, query, chunk), query]


def cut_across(buckets, query, chunk):
    order = sorted(range(len(buckets)), key=lambda t: buckets[t])
    here = order.index(query) // chunk
    near = order[max(here - 1, 0) * chunk : (here + 1) * chunk]
    return sorted(t for t in near if buckets[t] == buckets[query] and t < query)


def raising(*_):
    raise RuntimeError("boom")


RIGHT = {
    "hash_bucket": right_bucket,
    "met_in_round": right_met,
    "rounds_for_recall": lambda p, target: 1 if p == 1 else math.ceil(math.log(1 - target) / math.log(1 - p)),
}
WRONG = {
    "hash_bucket": [
        lambda x, R: int((x @ R).argmax()),
        lambda x, R: int((x @ R).abs().argmax()),
        lambda x, R: int(torch.cat([x @ R, -(x @ R)]).argmin()),
        lambda x, R: int(torch.cat([-(x @ R), x @ R]).argmax()),
    ],
    "met_in_round": [whole_bucket, by_slot, with_itself, cut_across],
    "rounds_for_recall": [
        lambda p, target: math.ceil(target / p),
        lambda p, target: 1 if p == 1 else math.log(1 - target) / math.log(1 - p),
        lambda p, target: 1 if p == 1 else math.floor(math.log(1 - target) / math.log(1 - p)),
        lambda p, target: math.ceil(math.log(1 - target) / math.log(1 - p)),
    ],
}
JUNK = [lambda *_: "text", lambda *_: [[1, 2], [3]], raising, 7, "text", lambda *_: math.nan]


@pytest.mark.parametrize("name", RIGHT)
def test_right_answer_passes(name):
    assert getattr(check, name)(RIGHT[name]).right is True


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, wrong in WRONG.items() for i in range(len(wrong))])
def test_wrong_answer_gets_a_message(name, number):
    answer = getattr(check, name)(WRONG[name][number])
    assert answer.right is False
    assert len(repr(answer)) > 30


def test_the_hash_says_where_to_look_and_not_the_formula():
    for wrong, words in zip(
        WRONG["hash_bucket"], ("have buckets, too", "have buckets, too", "first bucket", "first bucket"), strict=True
    ):
        message = check.hash_bucket(wrong).message
        assert words in message and "argmax" not in message, message


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("number", range(len(JUNK)))
def test_junk_survives(name, number):
    assert getattr(check, name)(JUNK[number]).right is not True


@pytest.mark.parametrize("name", RIGHT)
def test_open_exercise(name):
    assert getattr(check, name)(None).right is None
    assert getattr(check, name)(lambda *_: None).right is None
