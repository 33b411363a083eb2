"""What facts rest on: what is recorded is all that is read, and a search is judged file by file as it was made."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import WriteFiles

import h2dlint.facts
from h2dlint.cache.grounds import Now
from h2dlint.cache.stamps import Stamps
from h2dlint.facts.finder import Finder
from h2dlint.facts.mentions import Mentions
from h2dlint.facts.options import FactOptions
from h2dlint.facts.questions import Kinds

READERS = {"finder.py", "mentions.py", "mirrors.py", "questions.py"}
"""The modules of the facts that look at the disk; what they answer is recorded in grounds.py, or noted."""


def test_nothing_else_in_the_facts_looks_at_the_disk() -> None:
    looks = re.compile(r"\bopen\(|\bos\.(?:walk|listdir|scandir|stat)\b|\bos\.path\.(?:isfile|isdir|exists|getsize)\b")
    folder = Path(h2dlint.facts.__path__[0])
    found = {path.name for path in folder.glob("*.py") if looks.search(path.read_text("utf-8"))}
    assert found <= READERS


TREE = {
    "pyproject.toml": "",
    "a.py": "def f(x):\n    return x\n",
    "b.py": "from a import f\nf(1)\nthing.store(2)\n",
    "c.py": "import a\na.f(3)\nthing.kept = 3\n",
    "d.py": "f = 3\nother.store (2)\n",
    "e.py": "from a import (\n    g,\n    f as h,\n)\n",
    "tests/test_f.py": "from a import f\nf(1)\nx.store(1)\n",
    "sub/k.py": "from a import Kind\n\n\nclass Special(\n    Kind,\n):\n    pass\n",
    "sub/n.py": "class N:\n    def put(self, x, mask=None):\n        other.put(x, mask=mask)\n",
    "sub/p.py": "other.put(2, mask=first(3))\n",
    "sub/g.py": "from ..a import f\nf(2)\n",
}


def test_a_search_is_judged_file_by_file_as_it_was_made(write: WriteFiles) -> None:
    folder = write(TREE)
    asker = str(folder / "a.py")
    options = FactOptions()
    mentions = Mentions(Finder())
    answers = {
        (Kinds.CALLING, asker, "store"): mentions.files_calling("store", asker),
        (Kinds.CALLING, asker, "f"): mentions.files_calling("f", asker),
        (Kinds.STORING, asker, "kept"): mentions.files_storing("kept", asker),
        (Kinds.DERIVING, asker, "Kind"): mentions.files_deriving("Kind", asker),
        (Kinds.IMPORTING, asker, "f", "a"): mentions.files_importing("f", "a", asker),
        (Kinds.IMPORTING, asker, "g", "x.y"): mentions.files_importing("g", "x.y", asker),
        (Kinds.PASSING, asker, "put", "mask"): mentions.files_passing("put", "mask", asker),
        (Kinds.TAKING, asker, "put", "mask"): mentions.files_taking("put", "mask", asker),
    }
    for question, found in answers.items():
        assert found is not None
        now = Now(Stamps(str(folder), None), lambda digest: None)
        true, wrong = tuple(found), (*found, str(folder / "d.py"))
        if str(folder / "d.py") in found:
            wrong = tuple(file for file in found if file != str(folder / "d.py"))
        assert now.was_true_throughout((question, true), options, since=0)
        assert not now.was_true_throughout((question, wrong), options, since=0)
