"""The errors hangscope raises on purpose: each says what happened, to what, and what to do."""

from __future__ import annotations


class HangscopeError(Exception):
    """Root of hangscope's own errors; the command line prints it without a traceback.

    Attributes:
        exit_code: exit status of the command (report contract: 2 = nothing could be analyzed or wrong usage).
        advice: what the user can do about it, one sentence, or an empty string.
    """

    exit_code: int = 2

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice
        if advice:
            # notebooks and scripts show the traceback, and what to do has to stand there, too
            self.add_note(advice)


class InputError(HangscopeError):
    """An input cannot be had at all: no such path, or nothing readable below it."""


class UsageError(HangscopeError, ValueError):
    """What was asked for makes no sense: options that do not fit each other, a time that is none."""


class GrammarError(HangscopeError):
    """A grammar file is wrong; the message names the file and the line."""


class RuleError(HangscopeError):
    """A rule file is wrong; the message names the file, the line and the key.

    Attributes:
        key: the key that is wrong, with the tables it stands in (``when.all[1].fact``), or an empty string.
        line: the line it stands on, once that is known.
    """

    def __init__(self, message: str, advice: str = "", key: str = "", line: int | None = None) -> None:
        super().__init__(message, advice)
        self.key = key
        self.line = line

    def on_line(self, line: int) -> RuleError:
        """The same error with the line in it, behind the name of the file; the first line told stays."""
        if self.line is not None:
            return self
        file, colon, rest = str(self).partition(": ")
        return RuleError(f"{file}:{line}{colon}{rest}", self.advice, self.key, line)


class UnknownNameError(HangscopeError):
    """The user asked for a cause, rule or format that does not exist."""


class MissingEvidenceError(HangscopeError):
    """What is to be shown is not in the evidence; the advice says which evidence would show it."""
