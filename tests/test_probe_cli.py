"""`h2dlint probe` on machines where it cannot measure: one line that says why, status 2, no traceback."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from conftest import Cli, WriteFiles
from fake_gpu import FakeGpu
from test_probe_measurements import MACHINE
from test_startup import modules_after

from h2dlint.commands import invoke
from h2dlint.probe import command, needs
from h2dlint.probe.measurements import MEASUREMENTS
from h2dlint.probe.results import LeftOut, Results
from h2dlint.probe.run import run_all
from h2dlint.probe.stored_forms import SeenCopy
from h2dlint.probe.truth import Comparison, Difference, Seen

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """As if a package were not installed."""
    monkeypatch.setattr("h2dlint.probe.needs.find_spec", lambda name: None if name == missing else find_spec(name))


def test_without_a_gpu_it_says_so(cli: Cli) -> None:
    ran = cli("probe", env=NO_GPU)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("h2dlint: this needs an NVIDIA GPU")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("option", [("--truth",), ("--output-format", "json"), ("--device", "1"), ("--out", "plots")])
def test_without_a_gpu_no_option_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert invoke(["probe", *option]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("h2dlint: this needs an NVIDIA GPU")


@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_without_torch_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str
) -> None:
    without(monkeypatch, package)
    assert invoke(["probe"]) == 2
    said = capsys.readouterr()
    wanted = f"h2dlint: the probe needs {package}, which is not installed here: pip install 'h2dlint[torch]'\n"
    assert (said.out, said.err) == ("", wanted)


def test_a_torch_that_cannot_be_imported_is_named(write: WriteFiles, cli: Cli) -> None:
    folder = write({"torch/__init__.py": "raise ImportError('libcudart.so.13: cannot open shared object file')\n"})
    ran = cli("probe", env={"PYTHONPATH": str(folder)})
    assert ran.status == 2
    assert "torch is installed and cannot be imported: libcudart.so.13" in ran.err
    assert "Traceback" not in ran.err


def test_without_matplotlib_nothing_is_measured_that_could_not_be_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    without(monkeypatch, "matplotlib")
    assert invoke(["probe", "--out", str(tmp_path / "plots")]) == 2
    assert "--out draws plots with matplotlib, which is not installed here" in capsys.readouterr().err
    assert not (tmp_path / "plots").exists()


def test_rocm_is_not_measured_as_if_it_were_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert "built for ROCm, which the probe does not support" in str(needs.missing_gpu(0))


def test_another_accelerator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
    assert "the accelerator here is `xpu`, which the probe does not support" in str(needs.missing_gpu(0))


def test_a_driver_that_shows_no_gpu_is_told_from_a_build_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert "torch is built for CUDA 13.0 and sees none; `nvidia-smi` shows" in str(needs.missing_gpu(0))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "CUDA_VISIBLE_DEVICES is '7'" in str(needs.missing_gpu(0))
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "a build for the CPU" in str(needs.missing_gpu(0))


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert needs.missing_gpu(1) is None
    assert needs.missing_gpu(2) == "no GPU 2: there are GPUs 0 to 1"


def test_an_unknown_measurement_names_the_known_ones(cli: Cli) -> None:
    ran = cli("probe", "--only", "in-fligth", env=NO_GPU)
    assert ran.status == 2
    assert "no measurement `in-fligth`" in ran.err
    assert "in-flight" in ran.err


def test_stored_forms_and_chosen_measurements_are_two_things(cli: Cli) -> None:
    ran = cli("probe", "--truth", "--only", "waits", env=NO_GPU)
    assert ran.status == 2
    assert "`--only` chooses measurements, and `--truth` makes none" in ran.err


# --- with a GPU that only counts ----------------------------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were a GPU: what is measured is played."""

    def measure(wanted: list[str]) -> Results:
        chosen = [one for one in MEASUREMENTS if one.name in wanted]
        return run_all(FakeGpu(), MACHINE, chosen, lambda what, done: None)

    monkeypatch.setattr(command, "missing_gpu", lambda device: None)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(command, "_measure", measure)


@pytest.mark.usefixtures("gpu")
def test_chosen_measurements_are_made_in_their_own_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["probe", "--only", "pin-cost,single-copy", "--color", "never"]) == 0
    out = capsys.readouterr().out
    assert 0 < out.index("One copy behind") < out.index("What pinning costs")
    assert "Copies in flight" not in out
    assert "\x1b" not in out


@pytest.mark.usefixtures("gpu")
def test_files_are_written_beside_what_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "plots"
    assert invoke(["probe", "--only", "waits", "--output-format", "json", "--out", str(folder)]) == 0
    said = capsys.readouterr()
    assert sorted(path.name for path in folder.iterdir()) == ["probe.json", "waits.png", "waits.svg"]
    assert (folder / "probe.json").read_text().rstrip() == said.out.rstrip()
    assert said.err == f"h2dlint: wrote 3 files to {folder}\n"


@pytest.mark.usefixtures("gpu")
def test_a_run_in_which_nothing_could_be_measured_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left_out = (LeftOut("waits", "CUDA error: out of memory"),)
    monkeypatch.setattr(command, "_measure", lambda wanted: Results(MACHINE, 0.1, (), left_out))
    assert invoke(["probe", "--only", "waits"]) == 2
    assert "left out: waits: CUDA error: out of memory" in capsys.readouterr().out


@pytest.mark.usefixtures("gpu")
def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert invoke(["probe", "--out", str(tmp_path / "file" / "plots")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Could not open file" in said.err


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("differs", [True, False])
def test_a_difference_from_the_stored_table_is_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], differs: bool
) -> None:
    was, now = Seen((SeenCopy("h2d", "pageable", 1),)), Seen((SeenCopy("h2d", "pinned", 1),))
    differences = (Difference("a", "y = x.cuda()", was, now, "memory"),) if differs else ()
    found = Comparison(MACHINE, "NVIDIA H200", 1.0, 2, 2 - len(differences), differences)
    monkeypatch.setattr(command, "_compare", lambda: found)
    assert invoke(["probe", "--truth"]) == int(differs)
    assert ("1 differs" if differs else "all as stored") in capsys.readouterr().out


# --- start-up -----------------------------------------------------------------------------------------------------


def test_nothing_of_it_is_loaded_by_a_check(write: WriteFiles) -> None:
    code = "import torch\n\nx = torch.rand(99999).to('cuda', non_blocking=True)\n"
    loaded = modules_after(write({"a.py": code}), "check", "--exit-zero")
    assert not [name for name in loaded if name.startswith(("h2dlint.probe", "matplotlib", "torch"))]


def test_help_loads_neither_torch_nor_rich(write: WriteFiles) -> None:
    loaded = modules_after(write({}), "probe", "--help")
    assert not loaded & {"torch", "matplotlib", "rich"}
    assert "torch" in sys.modules  # of this process: the difference is what the test is about
