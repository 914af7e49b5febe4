"""Every error this library raises on purpose: one root, each with a standard-library parent, all picklable."""


class CountdownSelfPlayError(Exception):
    """Root of the library's errors: `except CountdownSelfPlayError` catches what the library itself reports."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows instead of a traceback: the sentence, as the command line does."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(CountdownSelfPlayError, ValueError):
    """A setting is not allowed; the message names the field, the value, the rule and the cure."""


class DataError(CountdownSelfPlayError, ValueError):
    """A data set row or file is not usable; the message names the row and the column."""


class PromptError(ConfigError, DataError):
    """The model's tokenizer cannot render a prompt of the run, or look for its end."""


class AbsentPackageError(ConfigError, AttributeError):
    """A part of a package beside the core that is not installed."""


class UnknownNameError(CountdownSelfPlayError, KeyError):
    """A name is in no registry; the message suggests the nearest one."""

    def __str__(self) -> str:  # KeyError would print the message in quotes, with its newlines escaped
        return str(self.args[0]) if self.args else ""


class RewardError(CountdownSelfPlayError, ValueError):
    """A reward function returned something that is not a finite number; the message names the function and the row."""


class GameError(CountdownSelfPlayError, RuntimeError):
    """A game, proposer or domain handed back what does not fit the round; the message says what and what to return."""


class CheckpointError(CountdownSelfPlayError, RuntimeError):
    """A checkpoint is missing, incomplete or does not fit the run that wants to resume from it."""


class RunFolderError(CountdownSelfPlayError, OSError):
    """The run folder is in use by another run or cannot be written; the message names the file and the cure."""


class ExportError(CountdownSelfPlayError, RuntimeError):
    """A policy that was written and loaded again is not the one that was trained; the message names its folder."""


class CollapseError(CountdownSelfPlayError, RuntimeError):
    """The collapse guard has used up its rollbacks; the message names the last trip and the last healthy
    checkpoint."""


class MissingExtraError(CountdownSelfPlayError, ImportError):
    """An optional dependency is absent; the message names the extra that brings it."""


class GenerationError(CountdownSelfPlayError, RuntimeError):
    """The generation backend could not sample or take new weights; the message names what was tried and how often."""


class CheckerError(CountdownSelfPlayError, RuntimeError):
    """The processes that check answers cannot be started any more; the message says how the last start failed."""


def shortened(text: str, most: int = 60) -> str:
    """A value's text for a sentence, cut to `most` signs."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
