"""Serve many requests at once from a paged cache. Runs on a CUDA machine, and more slowly without one.

Every step sends the requests' tables to the device, attends, chooses the next tokens and brings them back. README.md
says which of these copies wait although they ask not to, and why.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np
import torch

PAGE = 16
PAGES = 1024
WIDTH = 256
VOCABULARY = 8192
MAX_REQUESTS = 64
MAX_PAGES = 128
MAX_PROMPT = 4096

PIN_MEMORY = torch.cuda.is_available()
DEVICE = torch.device("cuda" if PIN_MEMORY else "cpu")


@dataclass(frozen=True)
class ServingConfig:
    """What an operator sets."""

    new_scheduler: bool
    """The new scheduler keeps its prompts in shared memory, which cannot be pinned."""
    temperature: float = 0.8


@dataclass
class Request:
    """One conversation: its tokens so far and the cache pages that hold them."""

    tokens: list[int]
    pages: list[int] = field(default_factory=list)


class HostDevicePair:
    """The same array twice: the host side is written, then sent."""

    def __init__(self, size: int, pin: bool) -> None:
        self.cpu = torch.zeros(size, dtype=torch.int64, pin_memory=pin)
        self.gpu = torch.zeros(size, dtype=torch.int64, device=DEVICE)

    def send(self, count: int) -> torch.Tensor:
        """Copy the first `count` elements to the device."""
        return self.gpu[:count].copy_(self.cpu[:count], non_blocking=True)


class BlockTable:
    """Which pages belong to which request. One column more than any request needs stops the kernels."""

    def __init__(self) -> None:
        self.host = torch.zeros(MAX_REQUESTS, MAX_PAGES + 1, dtype=torch.int32, pin_memory=PIN_MEMORY)
        self.rows = self.host.numpy()
        self.device = torch.zeros(MAX_REQUESTS, MAX_PAGES + 1, dtype=torch.int32, device=DEVICE)

    def write(self, row: int, pages: list[int]) -> None:
        self.rows[row, : len(pages)] = pages

    def send(self) -> torch.Tensor:
        """The table on the device, without the column that stops the kernels."""
        self.device[:, :MAX_PAGES].copy_(self.host[:, :MAX_PAGES], non_blocking=True)
        return self.device[:, :MAX_PAGES]


class Sampled:
    """What a step gives back to the host: a token for each request, and how sure the model was."""

    def __init__(self, ids: torch.Tensor, scores: torch.Tensor) -> None:
        self.ids = ids
        self.scores = scores

    @staticmethod
    def blank(count: int) -> Sampled:
        return Sampled(torch.empty(count, dtype=torch.int64), torch.empty(count))


class Engine:
    """The cache, the weights, and one step for all running requests."""

    def __init__(self, config: ServingConfig) -> None:
        self.config = config
        self.embed = torch.randn(VOCABULARY, WIDTH, device=DEVICE) / WIDTH**0.5
        self.cache = torch.zeros(PAGES, PAGE, WIDTH, device=DEVICE)
        self.bias = torch.zeros(MAX_REQUESTS, VOCABULARY, device=DEVICE)
        self.prompt = HostDevicePair(MAX_PROMPT, pin=PIN_MEMORY and not config.new_scheduler)
        self.table = BlockTable()
        self.free = list(range(PAGES))

    def ban(self, tokens: list[int]) -> None:
        """No request may be answered with these tokens."""
        row = torch.zeros(VOCABULARY, pin_memory=PIN_MEMORY)
        row[tokens] = float("-inf")
        self.bias.copy_(row, non_blocking=True)

    def admit(self, request: Request) -> None:
        """Give a request its pages and fill them with its prompt."""
        count = len(request.tokens)
        request.pages = [self.free.pop() for _ in range(count // PAGE + 1)]
        self.prompt.cpu[:count] = torch.tensor(request.tokens)
        self.cache.view(-1, WIDTH)[self.cache_rows(request)] = self.embed[self.prompt.send(count)]
        if PIN_MEMORY:
            torch.cuda.current_stream().synchronize()  # the next prompt is written to the same buffer

    def cache_rows(self, request: Request) -> torch.Tensor:
        """Where a request's tokens lie in the cache, in order."""
        starts = np.array(request.pages, dtype=np.int64) * PAGE
        rows = (starts[:, None] + np.arange(PAGE)).reshape(-1)
        return torch.from_numpy(rows[: len(request.tokens)]).to(DEVICE, non_blocking=True)

    def attend(self, query: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Each query attends to its own request's pages."""
        memory = self.cache[table.long()].flatten(1, 2)
        places = torch.arange(MAX_PAGES * PAGE).to(DEVICE, non_blocking=True)
        beyond = places.unsqueeze(0) >= lengths.unsqueeze(1)
        scores = torch.einsum("rw,rnw->rn", query, memory).masked_fill(beyond, float("-inf"))
        return torch.einsum("rn,rnw->rw", scores.softmax(dim=-1), memory)

    def step(self, requests: list[Request]) -> Sampled:
        """One new token for each request."""
        count = len(requests)
        for row, request in enumerate(requests):
            self.table.write(row, request.pages)
        state = torch.tensor([[request.tokens[-1], len(request.tokens)] for request in requests])
        newest, lengths = state.to(DEVICE, non_blocking=True).unbind(1)
        query = self.embed[newest]
        mixed = self.attend(query, self.table.send()[:count], lengths)
        logits = (query + mixed) @ self.embed.t() / self.config.temperature + self.bias[:count]
        scores, ids = logits.softmax(dim=-1).max(dim=-1)
        sampled = Sampled.blank(count)
        sampled.ids.copy_(ids, non_blocking=True)
        sampled.scores.copy_(scores, non_blocking=True)
        if PIN_MEMORY:
            torch.cuda.current_stream().synchronize()
        for request, token in zip(requests, sampled.ids.tolist(), strict=True):
            self.append(request, token)
        return sampled

    def append(self, request: Request, token: int) -> None:
        """Keep a new token, with a new page where the last one is full."""
        where = len(request.tokens)
        if where == len(request.pages) * PAGE:
            request.pages.append(self.free.pop())
        self.cache[request.pages[where // PAGE], where % PAGE] = self.embed[token]
        request.tokens.append(token)


def main(steps: int = 8) -> None:
    engine = Engine(ServingConfig(new_scheduler="--new-scheduler" in sys.argv))
    engine.ban([0, 1, 2])
    requests = [Request(tokens=[17 * row + place for place in range(20 + row)]) for row in range(8)]
    for request in requests:
        engine.admit(request)
    for _ in range(steps):
        sampled = engine.step(requests)
    print("first request:", requests[0].tokens[-steps:], "sure by", sampled.scores.tolist()[0])


if __name__ == "__main__":
    main()
