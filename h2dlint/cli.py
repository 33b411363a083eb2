"""The entry point: answers at once where there is nothing to do, and loads the command line proper where there is."""

from __future__ import annotations

import os
import sys

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141


def main() -> None:
    """Runs the command line and ends the process: 0 nothing to report, 1 findings, 2 usage or internal error."""
    code = exit_code(sys.argv[1:])
    if code == EXIT_INTERRUPTED:  # Python would first clear away all that was read, and that takes seconds
        os._exit(code)
    sys.exit(code)


def exit_code(arguments: list[str]) -> int:
    """Runs the command line; the status to end with. A closed pipe and Ctrl-C end quietly, a full disk does not."""
    try:
        _survive_any_file_name()
        from h2dlint.shortcut import try_shortcut

        code = try_shortcut(arguments)
        if code is None:
            from h2dlint.commands import invoke

            code = invoke(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever was reading has seen enough. What is still buffered goes nowhere, so that closing does not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        import errno

        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"h2dlint: the output cannot be written: {error.strerror}\n")
        return EXIT_ERROR


def _survive_any_file_name() -> None:
    """Characters that the terminal's encoding lacks are written as escapes instead of failing."""
    import io

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
