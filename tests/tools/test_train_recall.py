"""The trained mixers: the tasks ask what they say, training repeats itself, and the data file fits the script."""

import pytest
import torch

import train_recall
from attnledger.book.data import read
from attnledger.ops.msa import block_sparse_attention, select_blocks


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_recall_wants_the_value_written_after_the_key():
    tokens, wanted = train_recall.recall(8, 4, torch.Generator().manual_seed(0))
    assert tokens.shape == (4, 24) and wanted.shape == (4, 8)
    for text, answers in zip(tokens.tolist(), wanted.tolist(), strict=True):
        memory = dict(zip(text[:16:2], text[1:16:2], strict=True))
        assert len(memory) == 8
        assert [memory[key] for key in text[16:]] == answers


def test_copying_wants_the_symbol_after_the_earlier_occurrence():
    tokens, wanted = train_recall.copying(8, 4, torch.Generator().manual_seed(0))
    for text, answers in zip(tokens.tolist(), wanted.tolist(), strict=True):
        assert len(set(answers)) == 8
        assert [text[text.index(token) + 1] for token in text[9:]] == answers


def test_the_mask_reads_what_block_sparse_attention_reads():
    q, k, v = torch.randn(3, 2, 40, 16, generator=torch.Generator().manual_seed(0))
    one_head = [x.unsqueeze(1) for x in (q, k, v)]
    size = train_recall.BLOCK
    blocks = select_blocks(*one_head[:2], block_size=size, top_k=train_recall.BLOCKS)
    want = block_sparse_attention(*one_head, blocks, block_size=size, scale=7.0).squeeze(1)
    got = train_recall.msa(q, k, v, None, None, 7.0)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stack", train_recall.STACKS)
def test_training_reads_every_parameter_that_is_not_idle(stack):
    for _, _, model in train_recall.train(stack, "recall", 0, steps=1):
        layers = [p for layer in model.layers for p in layer.parameters()]
        unread = sum(p.numel() for p in layers if p.grad is None or not p.grad.any())
        assert unread == sum(layer.idle() for layer in model.layers)


def test_two_runs_are_one():
    one, two = (train_recall.run("gated", "recall", 3, steps=4, log_every=2) for _ in range(2))
    assert one == two


def test_the_data_file_is_what_the_script_would_write():
    data = read("recall.json")
    settings = data["settings"]
    assert settings == train_recall.settings() | {"torch": settings["torch"]}
    assert len(set(settings["parameters"].values())) == 1
    runs = [(one["task"], one["mixer"], one["seed"]) for one in data["runs"]]
    assert runs == [(t, s, n) for t in train_recall.TASKS for s in train_recall.STACKS for n in train_recall.SEEDS]
    for one in data["runs"]:
        assert len(one["accuracy"]) == len(settings["sizes"][one["task"]])
        assert all(0 <= share <= 1 for share in one["accuracy"])
        assert len(one["loss"]) == settings["steps"] // settings["log_every"]
