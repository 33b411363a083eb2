"""The commands and their options; what they do is elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from h2dlint import __version__
from h2dlint.checking import Fixes, Options, check_paths, inventory_of
from h2dlint.cli import EXIT_ERROR
from h2dlint.config import ConfigError, Configs, Selection, check_codes, nearest
from h2dlint.discovery import Missing, display_path
from h2dlint.progress import progress
from h2dlint.report import Report
from h2dlint.settings import FORMATS

if TYPE_CHECKING:
    from h2dlint.trace.trace_file import Trace

_Command = TypeVar("_Command", bound=Callable[..., Any])
_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COPY_FORMATS = ("full", "concise", "json")
_COMPLETION = "_H2DLINT_COMPLETE"


def invoke(arguments: list[str]) -> int:
    """Runs a command and answers its exit status; usage errors are told on stderr.

    Raises:
        KeyboardInterrupt, BrokenPipeError: for the caller to end quietly.
    """
    if _COMPLETION in os.environ:
        group.main(arguments, prog_name="h2dlint", complete_var=_COMPLETION)  # ends the process
    try:
        # Not `main`: that has its own answers to Ctrl-C and to a closed pipe.
        with group.make_context("h2dlint", list(map(_with_value, arguments))) as context:
            result = group.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return EXIT_ERROR
    except (ConfigError, Missing) as error:
        _tell(f"h2dlint: {error}")
        return EXIT_ERROR
    return result if isinstance(result, int) else 0


def _tell(text: str) -> None:
    """Says something on stderr, with names in it that may be anything."""
    from h2dlint.output.terminal import harmless

    click.echo("\n".join(map(harmless, text.split("\n"))), err=True)


def _with_value(argument: str) -> str:
    """`--add-ignore` may stand alone: what follows is then no reason, but a path."""
    return "--add-ignore=" if argument == "--add-ignore" else argument


@click.group(context_settings=_HELP)
@click.version_option(__version__, message="h2dlint %(version)s")
def group() -> None:
    """Finds host/device tensor copies that ask to be asynchronous and are not."""


def _codes(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The codes, or beginnings of codes, in comma separated lists."""
    codes = tuple(code.strip().upper() for value in values for code in value.split(",") if code.strip())
    try:
        check_codes(codes)
    except ConfigError as error:
        raise click.BadParameter(str(error), context, option) from error
    return codes


def _cores() -> int:
    """The cores that this process may use."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


_JOBS = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: _cores(),
    metavar="N",
    help="Processes to use at most.  [default: one a core]",
)


def _common(command: _Command) -> _Command:
    """The options that `check` and `copies` share."""
    for decorate in reversed(
        (
            click.argument("paths", nargs=-1, type=click.Path()),
            click.option(
                "--output-format",
                type=click.Choice(FORMATS),
                help="How to write the result.  [default: full on a terminal, else concise]",
            ),
            click.option("--output-file", type=click.Path(dir_okay=False), help="Write the result to a file."),
            click.option("--exclude", multiple=True, metavar="GLOB", help="Leave these out too; may be repeated."),
            click.option("--config", metavar="FILE", help="Use the settings in this file for all files."),
            click.option("--isolated", is_flag=True, help="Read no settings file."),
            _JOBS,
            click.option(
                "--color",
                type=click.Choice(("auto", "always", "never")),
                default="auto",
                help="Use colors; auto honours NO_COLOR and FORCE_COLOR.",
            ),
            click.option("-v", "--verbose", is_flag=True, help="Tell on stderr what is being done."),
            click.option("-q", "--quiet", is_flag=True, help="Say nothing when there is nothing to report."),
        )
    ):
        command = decorate(command)
    return command


@group.command()
@_common
@click.option(
    "--select", multiple=True, callback=_codes, metavar="CODES", help="Run these rules only, whatever the settings say."
)
@click.option("--extend-select", multiple=True, callback=_codes, metavar="CODES", help="Run these rules too.")
@click.option("--ignore", multiple=True, callback=_codes, metavar="CODES", help="Do not run these rules.")
@click.option("--strict", is_flag=True, help="A copy that cannot be proven is an error (HTD190).")
@click.option("--show-unproven", is_flag=True, help="List the copies that cannot be proven.")
@click.option("--no-cache", is_flag=True, help="Use no stored results, and store none.")
@click.option("--clear-cache", is_flag=True, help="Remove the stored results of the first path's project, and end.")
@click.option("--exit-zero", is_flag=True, help="End with status 0 even if something is found.")
@click.option("--baseline", metavar="FILE", help="Do not report the findings in this file.")
@click.option("--no-baseline", is_flag=True, help="Report known findings too, whatever the settings say.")
@click.option("--write-baseline", metavar="FILE", help="Write what is found to FILE, to be known from now on.")
@click.option("--since", metavar="REV", help="Report only what rests on a line that changed since this git revision.")
@click.option("--affected", is_flag=True, help="Check the files too whose verdicts depend on the given ones.")
@click.option("--add-ignore", metavar="[=REASON]", help="Write a suppressing comment for each error and warning.")
@click.option("--statistics", is_flag=True, help="Print how many findings each rule has, not the findings.")
@click.option("--show-settings", is_flag=True, help="Print the settings that hold for the first path, and end.")
@click.option("--show-files", is_flag=True, help="Print the files that would be looked at, and end.")
@click.option("--trace", "trace_file", metavar="FILE", help="Mark what ran by a trace of `h2dlint trace`.")
@click.option("--fix", is_flag=True, help="Make the safe fixes: same values, never an error where there was none.")
@click.option("--unsafe-fixes", is_flag=True, help="Make, or show, the unsafe fixes too.")
@click.option("--diff", is_flag=True, help="Write no file: print what --fix would change, and end with 1 if anything.")
@click.option("--fix-only", is_flag=True, help="Fix, and do not report what is left.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="End with status 1 if anything was fixed.")
@click.option(
    "--summary-file", metavar="FILE", help="Write what was fixed, why, and what is left, for a pull request (Markdown)."
)
@click.option("--force-exclude", is_flag=True, help="Leave out what the excludes say even if it is named.")
@click.option("--stdin-filename", metavar="FILE", help="What to call the file that `-` reads.")
def check(
    paths: tuple[str, ...],
    output_format: str | None,
    output_file: str | None,
    exclude: tuple[str, ...],
    config: str | None,
    isolated: bool,
    jobs: int,
    color: str,
    verbose: bool,
    quiet: bool,
    select: tuple[str, ...],
    extend_select: tuple[str, ...],
    ignore: tuple[str, ...],
    strict: bool,
    show_unproven: bool,
    no_cache: bool,
    clear_cache: bool,
    exit_zero: bool,
    baseline: str | None,
    no_baseline: bool,
    write_baseline: str | None,
    since: str | None,
    affected: bool,
    add_ignore: str | None,
    statistics: bool,
    show_settings: bool,
    show_files: bool,
    trace_file: str | None,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    fix_only: bool,
    exit_non_zero_on_fix: bool,
    summary_file: str | None,
    force_exclude: bool,
    stdin_filename: str | None,
) -> int:
    """Report copies that only look asynchronous, and fix them.

    PATHS are files and folders; the working directory if none is given. `-` reads one file from stdin; with --fix the
    fixed text goes to stdout and the findings to stderr. The exit status is 0 if there is nothing to report or all was
    fixed, 1 if errors or warnings are left, 2 if h2dlint was used wrongly or failed.
    """
    make = fix or fix_only or diff
    stdin = _stdin(paths, stdin_filename)
    if stdin is not None:
        paths = (stdin_filename or _STDIN,)
    configs = _configs(isolated, config)
    if add_ignore is not None and make:
        raise click.UsageError("`--add-ignore` silences what `--fix` would repair: run them one after the other")
    if write_baseline is not None and (make or since is not None or baseline is not None):
        raise click.UsageError("`--write-baseline` writes down everything that is found: it goes with no other filter")
    if no_baseline and baseline is not None:
        raise click.UsageError("`--baseline` and `--no-baseline` contradict each other: give one of them")
    if trace_file is not None and (make or add_ignore is not None):
        raise click.UsageError("`--trace` is about the files as they ran: look first, and change them then")
    if clear_cache:
        return _clear_cache(configs, paths)
    if show_settings:
        return _show_settings(configs, paths)
    if show_files:
        return _show_files(configs, paths, exclude, force_exclude)
    format = _format(output_format, configs, output_file)
    options = Options(
        exclude=exclude,
        selection=Selection(select, extend_select, ignore),
        strict=strict,
        show_unproven=show_unproven,
        processes=jobs,
        verbose=verbose,
        # The short format shows no fixes: looking for them would only take time.
        fixes=Fixes(make, unsafe_fixes, write=make and not diff and stdin is None)
        if make or format not in _WITHOUT_FIXES or summary_file
        else None,
        baseline=baseline,
        all_known=no_baseline or write_baseline is not None,
        since=since,
        affected=affected,
        cache=not no_cache,
        force_exclude=force_exclude,
        trace=_trace(trace_file),
        stdin=stdin,
    )
    with progress("fixing" if make else "checking", enabled=not quiet) as done:
        report = check_paths(paths or (os.curdir,), configs, options, done)
    if verbose:
        _tell_read(report.read_beyond)
    if add_ignore is not None:
        from h2dlint.checking import add_ignores

        report = add_ignores(report, paths or (os.curdir,), configs, options, add_ignore)
    for path, reason in report.left_alone.items():
        _tell(f"h2dlint: {path} was left alone: {reason}")
    for path in report.stale:
        _tell(f"h2dlint: {path} has changed since the trace: what ran there is left out")
    if report.untraced:
        _tell(f"h2dlint: none of these files is in {trace_file}: check from the folder in which the trace was made")
    if summary_file is not None:
        _write_summary(report, summary_file)
    if write_baseline is not None:
        return _write_baseline(report, write_baseline)
    if report.gone and not quiet:
        _tell_gone(report.gone)
    if diff:
        with _output(output_file, color) as (stream, colored):
            _show_diff(report, stream, colored)
        return 1 if report.changes and not exit_zero else 0
    filtering = stdin is not None and make
    if filtering:
        _pass_on(report.rewritten.get(display_path(paths[0]), stdin or b""))
    if not fix_only:
        with _output(output_file, color, sys.stderr if filtering else sys.stdout) as (stream, colored):
            if statistics:
                from h2dlint.output import write_statistics

                write_statistics(report, format, stream, show_unproven)
            elif report.findings or not quiet:
                from h2dlint.output import write_findings

                write_findings(report, format, stream, colored, show_unproven)
    elif not quiet:
        _tell_fixed(report, "Fixed")
    failed = not fix_only and any(finding.severity.value != "note" for finding in report.findings)
    if exit_non_zero_on_fix and report.fixed:
        return 1
    return 1 if failed and not exit_zero else 0


def _trace(file: str | None) -> Trace | None:
    """The trace in a file; None where none is named."""
    if file is None:
        return None
    from h2dlint.trace.trace_file import TraceError, read

    try:
        return read(file)
    except TraceError as error:
        raise click.ClickException(str(error)) from error


_WITHOUT_FIXES = ("concise", "github", "gitlab", "junit")
"""Formats that show no fixes: looking for them would only take time."""


def _configs(isolated: bool, file: str | None) -> Configs:
    if isolated and file is not None:
        raise click.UsageError("`--isolated` reads no settings, `--config` names some: give one of them")
    return Configs(isolated, file)


def _clear_cache(configs: Configs, paths: tuple[str, ...]) -> int:
    """Removes the stored results, and tells where they were."""
    from h2dlint.cache.folder import Unusable, clear
    from h2dlint.checking import cache_folder

    folder, _ = cache_folder(configs, paths)
    try:
        removed = clear(folder)
    except Unusable as error:
        raise click.ClickException(f"the cache was left alone: {error}") from error
    shown = display_path(folder)
    click.echo(f"Removed {shown}" if removed else f"Nothing to remove: there is no {shown}", err=True)
    return 0


def _show_settings(configs: Configs, paths: tuple[str, ...]) -> int:
    """Prints the settings of the first path as TOML, with where they come from."""
    from h2dlint.config import shown

    path = paths[0] if paths else os.curdir
    click.echo(shown(configs.for_folder(path if os.path.isdir(path) else os.path.dirname(path) or os.curdir)))
    return 0


def _show_files(configs: Configs, paths: tuple[str, ...], exclude: tuple[str, ...], force_exclude: bool) -> int:
    from h2dlint.checking import excluder
    from h2dlint.discovery import python_files
    from h2dlint.output.terminal import harmless

    for file in python_files(paths or (os.curdir,), excluder(configs, exclude), force_exclude):
        click.echo(harmless(display_path(file)))
    return 0


def _write_baseline(report: Report, file: str) -> int:
    """Writes what was found to the baseline, and tells how to use it."""
    from h2dlint.baseline import read, write

    old = read(file) if os.path.exists(file) else None
    number = write(file, report.findings, report.sources, report.seen, old)
    finding = "finding" if number == 1 else "findings"
    click.echo(f"h2dlint: wrote {number:,} {finding} to {file}", err=True)
    click.echo(f'h2dlint: use it with --baseline {file}, or with `baseline = "{file}"` in the settings', err=True)
    return 0


def _tell_read(number: int) -> None:
    click.echo(f"h2dlint: modules read beyond these, for what they define: {number:,}", err=True)


def _tell_gone(number: int) -> None:
    what = "1 finding of the baseline is gone" if number == 1 else f"{number:,} findings of the baseline are gone"
    click.echo(f"h2dlint: {what}; run with --write-baseline FILE to take note of it", err=True)


_STDIN = "-"


def _stdin(paths: tuple[str, ...], name: str | None) -> bytes | None:
    """What stdin holds, if the paths ask for it."""
    if _STDIN not in paths:
        if name is not None:
            raise click.UsageError("`--stdin-filename` names what `-` reads: give `-` as the only path")
        return None
    if len(paths) > 1:
        raise click.UsageError("`-` reads one file from stdin: give no other path with it")
    return sys.stdin.buffer.read()


def _pass_on(data: bytes) -> None:
    """Writes a file to stdout, byte for byte."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _write_summary(report: Report, file: str) -> None:
    from h2dlint.output import pull_request

    with _output(file, "never") as (stream, _):
        stream.write(pull_request.render(report))


def _show_diff(report: Report, stream: TextIO, colored: bool) -> None:
    """Writes what would change."""
    from h2dlint.output import write_diff

    write_diff(report.changes, stream, colored)
    _tell_fixed(report, "Would fix")


def _tell_fixed(report: Report, verb: str) -> None:
    from h2dlint.output.summary import fixed_part

    if report.fixed:
        click.echo(f"h2dlint: {fixed_part(report, verb)}", err=True)


@group.command()
@_common
@click.option("--no-cache", is_flag=True, help="Use no stored results, and store none.")
@click.option("--explain", "place", metavar="PATH:LINE", help="Show every way to the copy there, with its chain.")
def copies(
    paths: tuple[str, ...],
    place: str | None,
    output_format: str | None,
    output_file: str | None,
    exclude: tuple[str, ...],
    config: str | None,
    isolated: bool,
    jobs: int,
    color: str,
    verbose: bool,
    quiet: bool,
    no_cache: bool,
) -> int:
    """List every copy between host and device, with its verdict.

    PATHS are files and folders; the working directory if none is given.
    """
    configs = _configs(isolated, config)
    if place is not None:
        return _explain(place, configs)
    options = Options(exclude=exclude, processes=jobs, verbose=verbose, cache=not no_cache)
    with progress("listing", enabled=not quiet) as done:
        found = inventory_of(paths or (os.curdir,), configs, options, done)
    if verbose:
        _tell_read(found.read_beyond)
    from h2dlint.notebooks.view import CellView

    for problem in map(CellView(found.sources).finding, found.problems):
        _tell(f"{problem.path}:{problem.span.line}: {problem.message}")
    with _output(output_file, color) as (stream, colored):
        from h2dlint.output import write_copies

        format = _format(output_format, configs, output_file, COPY_FORMATS)
        if format not in COPY_FORMATS:
            raise click.UsageError(f"`copies` writes {', '.join(COPY_FORMATS)}, not {format}")
        write_copies(found.copies, found.sources, format, stream, colored)
    return 0


_LINE_DIGITS = 9


def _explain(place: str, configs: Configs) -> int:
    """Prints why the copies on one line got their verdicts."""
    path, colon, line = place.rpartition(":")
    if not colon or not (line.isascii() and line.isdigit()) or len(line) > _LINE_DIGITS:
        raise click.UsageError(f"`--explain` wants PATH:LINE, such as src/worker.py:120, not {place}")
    from h2dlint.explaining import explained

    found = explained(path, int(line), configs)
    if isinstance(found, str):
        raise click.ClickException(found)
    from h2dlint.output.explanation import render

    click.echo(render(found), nl=False)
    return 0


@group.command()
@click.argument("code", required=False)
@click.option("--all", "every", is_flag=True, help="Show every rule.")
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", show_default=True)
def rule(code: str | None, every: bool, output_format: str) -> int:
    """Explain a rule."""
    from h2dlint.output import render_rule
    from h2dlint.rules import all_rules

    if every == (code is not None):
        raise click.UsageError("name one rule, or all of them with --all")
    rules = [one for one in all_rules() if every or code in (one.meta.code, one.meta.code.lower(), one.meta.name)]
    if not rules:
        raise click.UsageError(f"no rule `{code}`{nearest(str(code), [one.meta.code for one in all_rules()])}")
    pages = [render_rule(one, output_format).strip("\n") for one in rules]
    if output_format == "json" and every:
        click.echo("[" + ",\n".join(pages) + "]")
    else:
        click.echo("\n\n".join(pages))
    return 0


@group.command()
@click.argument("folder", default=os.curdir, type=click.Path(exists=True, file_okay=False))
@_JOBS
def init(folder: str, jobs: int) -> int:
    """Write a first configuration for the project in FOLDER.

    It looks for the project's pin flag and transfer helper and for functions that run at every step, writes what it
    finds today into a baseline, and adds a commit hook.
    """
    from h2dlint.adopt import adopt

    with progress("looking", enabled=True) as done:
        adopted = adopt(folder, jobs, done)
    for line in adopted.done:
        click.echo(line)
    click.echo("\nNext:")
    for command in adopted.next:
        click.echo(f"  {command}")
    return 0


@group.command()
@click.option(
    "--truth", is_flag=True, help="Run the stored forms again, and tell which of them do something else here."
)
@click.option("--only", multiple=True, metavar="NAMES", help="Make these measurements only, in a comma separated list.")
@click.option("--device", type=click.IntRange(min=0), default=0, show_default=True, help="The GPU to measure.")
@click.option("--output-format", type=click.Choice(("full", "json")), default="full", show_default=True)
@click.option("--out", metavar="DIR", type=click.Path(file_okay=False), help="Write the JSON and plots into DIR too.")
@click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", help="Use colors.")
def probe(truth: bool, only: tuple[str, ...], device: int, output_format: str, out: str | None, color: str) -> int:
    """Measure on this machine's GPU what the rules say of copies.

    It takes one or two minutes and needs an NVIDIA GPU and torch (pip install 'h2dlint[torch]'). The exit status is 0;
    with --truth it is 1 if a form does something else than the stored table says. 2 means that nothing was measured.
    """
    from h2dlint.probe.command import probe_gpu

    return probe_gpu(truth, only, device, output_format, out, wants_color(color, sys.stdout))


class _BeforeAProgram(click.Command):
    """A command whose own options end where a program begins: at `--`, at `-m`, or at the first word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Marks the place with `--`, so that no option of the program is taken for one of ours."""
        values = {name for one in self.params if not getattr(one, "is_flag", True) for name in one.opts}
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--", "-m"):
            at += 2 if args[at] in values else 1
        if at < len(args) and args[at] != "--":
            args = [*args[:at], "--", *args[at:]]
        return super().parse_args(ctx, args)


@group.command(cls=_BeforeAProgram, options_metavar="[OPTIONS] [--]", short_help="Run a program, and see what waits.")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT.py|-m MODULE|COMMAND [ARGS]...")
@click.option("--out", default="trace.json", metavar="FILE", show_default=True, help="Where to write the trace.")
@click.option("--top", type=click.IntRange(min=1), default=20, metavar="N", show_default=True, help="Rows to show.")
@click.option("--output-format", type=click.Choice(("full", "json")), default="full", show_default=True)
@click.option("--output-file", type=click.Path(dir_okay=False), help="Write the report to a file.  [default: stderr]")
@click.option("--chart", metavar="FILE", help="Draw the time lost per line, as .png, .svg or .pdf.")
@click.option("--read", metavar="FILE", help="Run nothing: show a trace that there is, on stdout.")
@click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", help="Use colors.")
def trace(
    program: tuple[str, ...],
    out: str,
    top: int,
    output_format: str,
    output_file: str | None,
    chart: str | None,
    read: str | None,
    color: str,
) -> int:
    """Run a program, and see which of its copies between host and device waited, where, and for how long.

    The program runs as it would alone, and its exit status is this command's. The trace that it leaves is also for
    `h2dlint check --trace FILE`. Needs torch where the program runs.
    """
    from h2dlint.trace.command import Wish, carry_out
    from h2dlint.trace.trace_file import TraceError

    if (read is None) == (not program):
        raise click.UsageError("name a program, such as `h2dlint trace -- python train.py`, or a trace with --read")
    wish = Wish(program, out, top, output_format, chart, read)
    try:
        with _output(output_file, color, sys.stdout if read else sys.stderr) as (stream, colored):
            return carry_out(wish, stream, colored)
    except TraceError as error:
        raise click.ClickException(str(error)) from error


# --- where the output goes ----------------------------------------------------------------------------------------


@contextmanager
def _output(file: str | None, color: str, otherwise: TextIO | None = None) -> Iterator[tuple[TextIO, bool]]:
    """The stream that takes the result, stdout or `otherwise` if no file is named, and whether it takes colors."""
    if file is None:
        stream = otherwise or sys.stdout
        yield stream, wants_color(color, stream)
        stream.flush()
        return
    try:
        stream = open(file, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115  (closed below)
    except OSError as error:
        raise click.FileError(file, error.strerror or str(error)) from error
    try:
        with stream:
            yield stream, color == "always"
    except OSError as error:  # such as a full disk, which may be told when the file is closed
        raise click.FileError(file, error.strerror or str(error)) from error


def wants_color(choice: str, stream: TextIO) -> bool:
    """Whether to write colors to `stream`, by option, then NO_COLOR and FORCE_COLOR, then by what the stream is."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _format(option: str | None, configs: Configs, file: str | None, known: tuple[str, ...] = FORMATS) -> str:
    """The format: by option, then by settings if it is one of the `known`, then by where the output goes."""
    on_terminal = file is None and sys.stdout.isatty()
    configured = configs.for_folder(os.curdir).output_format
    return option or (configured if configured in known else None) or ("full" if on_terminal else "concise")
