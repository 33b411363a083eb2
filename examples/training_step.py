"""Train a small next-token model on a stream of token ids. Runs on a CUDA machine, and more slowly without one.

The model learns; the uploads are not what they seem. README.md says which line waits, and why.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 4096
CONTEXT = 256
WIDTH = 384
BATCH = 32

HAVE_GPU = torch.cuda.is_available()
PIN_WINDOWS = HAVE_GPU and os.environ.get("TRAIN_PIN_WINDOWS", "0") == "1"


class NextToken(nn.Module):
    """Token and position embeddings, two feed-forward layers, one output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.mix = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        hidden = self.tokens(ids) + self.positions(places)
        return self.head(hidden + self.mix(hidden))


class TokenStream:
    """Random windows of one long array of token ids."""

    def __init__(self, tokens: np.ndarray, seed: int) -> None:
        self.tokens = tokens
        self.rng = np.random.default_rng(seed)

    def windows(self) -> np.ndarray:
        """A batch of windows, one token longer than the context: inputs and targets overlap."""
        starts = self.rng.integers(0, len(self.tokens) - CONTEXT - 1, size=BATCH)
        return np.stack([self.tokens[start : start + CONTEXT + 1] for start in starts])


class Trainer:
    """One model, one optimiser, and the weights of its loss."""

    def __init__(self, device: torch.device, counts: torch.Tensor) -> None:
        self.device = device
        self.model = NextToken().to(device)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.rarity = self.upload_rarity(counts)

    def upload_rarity(self, counts: torch.Tensor) -> torch.Tensor:
        """Rare tokens weigh more: one weight for each token of the vocabulary, with a mean of one."""
        weights = (counts.cpu().float() + 1.0).rsqrt()
        return (weights / weights.mean()).to(self.device, non_blocking=True)

    def places(self) -> torch.Tensor:
        """Where each token of a batch stands in its window."""
        return torch.arange(CONTEXT).repeat(BATCH, 1).to(self.device, non_blocking=True)

    def step(self, windows: np.ndarray) -> torch.Tensor:
        """One update; returns the loss, still on the device."""
        ids = torch.from_numpy(windows.astype(np.int64)).to(self.device, non_blocking=True)
        logits = self.model(ids[:, :-1], self.places())
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), self.rarity)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def evaluate(self, windows: np.ndarray) -> torch.Tensor:
        """The loss on windows that the model has not seen, still on the device."""
        held_out = torch.empty(windows.shape, dtype=torch.int64, pin_memory=PIN_WINDOWS)
        held_out.copy_(torch.from_numpy(windows.astype(np.int64)))
        ids = held_out.to(self.device, non_blocking=True)
        with torch.no_grad():
            logits = self.model(ids[:, :-1], self.places())
            return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def repeating_tokens(length: int, seed: int) -> np.ndarray:
    """A phrase over and over, with a tenth of its tokens replaced: something that can be learnt."""
    rng = np.random.default_rng(seed)
    phrase = rng.integers(0, VOCABULARY, size=97)
    tokens = np.resize(phrase, length)
    noise = rng.random(length) < 0.1
    tokens[noise] = rng.integers(0, VOCABULARY, size=int(noise.sum()))
    return tokens


def main(steps: int = 20) -> None:
    device = torch.device("cuda" if HAVE_GPU else "cpu")
    tokens = repeating_tokens(200_000, seed=1)
    counts = torch.bincount(torch.from_numpy(tokens), minlength=VOCABULARY)
    trainer = Trainer(device, counts)
    stream = TokenStream(tokens, seed=2)
    losses = [trainer.step(stream.windows()) for _ in range(steps)]
    held_out = trainer.evaluate(stream.windows())
    print(f"loss {losses[0].item():.3f} -> {losses[-1].item():.3f}, held out {held_out.item():.3f}")


if __name__ == "__main__":
    main()
