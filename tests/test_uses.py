"""Memory is pinned where it is made only if nobody in sight can write or read it while a copy is queued."""

from __future__ import annotations

import json

import pytest
from conftest import Cli, WriteFiles

UPLOAD = """\
import ctypes
import threading

import numpy as np
import torch


class Holder:
    def step(self, n, i, dev, fill, pending):
        host = torch.rand(n, 4)
{before}
        sent = host.to(dev, non_blocking=True)
{after}
        return sent
"""

AT_THE_FACTORY: dict[str, tuple[str, str]] = {
    "nothing else": ("", ""),
    "filled by item before": ("host[i] = 3", ""),
    "filled in place before": ("host.fill_(3)", ""),
    "filled through a view before": ("host.view(-1)[0] = 3", ""),
    "filled through its array before": ("host.numpy()[:] = 3", ""),
    "a sum behind": ("", "print(host.sum())"),
    "its shape behind": ("", "fill(host.shape, host.size(0))"),
    "arithmetic behind": ("", "double = host * 2"),
    "joined behind": ("", "both = torch.cat([host, host])"),
    "a row read behind": ("", "row = host[i]\nprint(row)"),
    "a view made before, and read behind": ("flat = host.view(-1)", "print(flat.tolist())"),
}

A_SNAPSHOT: dict[str, tuple[str, str]] = {
    "written by item behind": ("", "host[i] = 3"),
    "written in place behind": ("", "host.add_(1)"),
    "a row that is written behind": ("row = host[i]", "row.fill_(3)"),
    "a row made and written behind": ("", "row = host[i]\nrow.fill_(3)"),
    "pieces that are written behind": ("left, right = host.split(2)", "right.zero_()"),
    "pieces in a list": ("rows = list(host.view(2, -1))", "rows[0].zero_()"),
    "its array is written behind": ("array = host.numpy()", "array[:] = 0"),
    "its array is filled behind": ("", "host.numpy().fill(0)"),
    "kept in a list before": ("pending.append(host)", ""),
    "kept in a set before": ("pending.add(host)", ""),
    "kept in an attribute before": ("self.host = host", ""),
    "kept in a dict before": ("pending['host'] = host", ""),
    "a view kept before": ("self.rows = host.view(-1)", ""),
    "given to a function before": ("fill(host)", ""),
    "given to a function behind": ("", "fill(host)"),
    "initialised by torch.nn behind": ("", "torch.nn.init.ones_(host)"),
    "written by a foreach behind": ("", "torch._foreach_zero_(list(host.split(2)))"),
    "a method that is called later": ("thread = threading.Thread(target=host.mul_, args=(2,))", "thread.start()"),
    "written through its address": ("", "ctypes.memset(host.data_ptr(), 0, 16)"),
    "written by numpy behind": ("", "np.copyto(host.numpy(), 0)"),
    "written as an output behind": ("", "torch.add(sent.cpu(), 1, out=host)"),
    "rows of a loop": ("", "for row in host:\n    row.zero_()"),
}


def fixes(write: WriteFiles, cli: Cli, text: str) -> list[tuple[str, str]]:
    write({"a.py": text})
    found = json.loads(cli("check", "--output-format", "json").out)["findings"]
    return [(one["fix"]["title"], one["fix"]["applicability"]) for one in found if one["fix"] is not None]


def program(template: str, before: str, after: str) -> str:
    inner = " " * 8
    before, after = ("\n".join(inner + line for line in part.splitlines()) for part in (before, after))
    return template.format(before=before, after=after)


@pytest.mark.parametrize(("before", "after"), AT_THE_FACTORY.values(), ids=AT_THE_FACTORY)
def test_memory_that_nobody_else_writes_is_pinned_where_it_is_made(
    write: WriteFiles, cli: Cli, before: str, after: str
) -> None:
    assert ("Allocate it pinned", "safe") in fixes(write, cli, program(UPLOAD, before, after))


@pytest.mark.parametrize(("before", "after"), A_SNAPSHOT.values(), ids=A_SNAPSHOT)
def test_memory_that_may_be_written_behind_the_copy_stays_pageable(
    write: WriteFiles, cli: Cli, before: str, after: str
) -> None:
    titles = [title for title, _ in fixes(write, cli, program(UPLOAD, before, after))]
    assert "Allocate it pinned" not in titles


DOWNLOAD = """\
import torch


class Holder:
    def fetch(self, gpu: torch.Tensor, events, debug, pending):
        gpu = gpu.cuda()
        host = torch.zeros(4)
{before}
        host.copy_(gpu, non_blocking=True)
{after}
"""

WAITED_FOR: dict[str, tuple[str, str]] = {
    "the device": ("", "torch.cuda.synchronize()\nreturn host.tolist()"),
    "the current stream": ("", "torch.cuda.current_stream().synchronize()\nreturn host.tolist()"),
    "an event recorded behind": (
        "done = torch.cuda.Event()",
        "done.record()\ndone.synchronize()\nreturn host.tolist()",
    ),
    "a recorded event": (
        "",
        "done = torch.cuda.current_stream().record_event()\ndone.synchronize()\nreturn host.sum()",
    ),
}

NOT_WAITED_FOR: dict[str, tuple[str, str]] = {
    "events of a list that may be empty": ("", "for event in events:\n    event.synchronize()\nreturn host.tolist()"),
    "on one way only": ("", "if debug:\n    torch.cuda.synchronize()\nreturn host.tolist()"),
    "in a loop that may not run": ("", "while debug:\n    torch.cuda.synchronize()\nreturn host.tolist()"),
    "where an error may come first": (
        "",
        "try:\n    debug()\n    torch.cuda.synchronize()\nexcept ValueError:\n    pass\nreturn host.tolist()",
    ),
    "a stream waits, not the host": ("", "torch.cuda.current_stream().wait_stream(events)\nreturn host.tolist()"),
    "something else is synchronized": ("", "self.timer.synchronize()\nreturn host.tolist()"),
    "a list of rows is made before": ("", "rows = list(host.view(2, 2))\ntorch.cuda.synchronize()\nreturn rows"),
    "a memory view is read before": (
        "",
        "total = sum(memoryview(host.numpy()))\ntorch.cuda.synchronize()\nreturn total",
    ),
    "the host's own": ("", "torch.cpu.synchronize()\nreturn host.tolist()"),
    "another stream": ("side = torch.cuda.Stream()", "side.synchronize()\nreturn host.tolist()"),
    "an event of before, while another is recorded": (
        "done = torch.cuda.Event()\ndone.record()",
        "events.record()\ndone.synchronize()\nreturn host.tolist()",
    ),
    "the loop is left before": (
        "",
        "while True:\n    host.copy_(gpu, non_blocking=True)\n    if debug:\n        break\n"
        "    torch.cuda.synchronize()\nreturn host.tolist()",
    ),
    "others hold it": ("pending.append(host)", "torch.cuda.synchronize()\nreturn host.tolist()"),
}


@pytest.mark.parametrize(("before", "after"), WAITED_FOR.values(), ids=WAITED_FOR)
def test_a_result_that_is_waited_for_is_fetched_into_pinned_memory(
    write: WriteFiles, cli: Cli, before: str, after: str
) -> None:
    assert fixes(write, cli, program(DOWNLOAD, before, after)) == [("Allocate it pinned", "safe")]


@pytest.mark.parametrize(("before", "after"), NOT_WAITED_FOR.values(), ids=NOT_WAITED_FOR)
def test_a_result_that_may_be_read_early_is_not_fetched_so_by_a_safe_fix(
    write: WriteFiles, cli: Cli, before: str, after: str
) -> None:
    assert ("Allocate it pinned", "safe") not in fixes(write, cli, program(DOWNLOAD, before, after))
