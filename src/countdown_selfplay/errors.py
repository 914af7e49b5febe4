"""Errors that this library raises: one root, each with a standard-library parent, all picklable."""


class CountdownSelfPlayError(Exception):
    """Root of the library's errors."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows in place of a traceback: the error's class and message."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(CountdownSelfPlayError, ValueError):
    """Setting that is not allowed; the message names the field, the value, the rule and the remedy."""


class DataError(CountdownSelfPlayError, ValueError):
    """Row or file of a data set that cannot be used; the message names the row and the column."""


class PromptError(ConfigError, DataError):
    """Prompt that the tokenizer cannot render, or stop string that generation cannot detect with it."""


class AbsentPackageError(ConfigError, AttributeError):
    """Use of a part whose optional package (packages.py) is not installed."""


class UnknownNameError(CountdownSelfPlayError, KeyError):
    """Name that is in no registry; the message suggests the nearest one."""

    def __str__(self) -> str:  # KeyError would print the message in quotes, with its newlines escaped
        return str(self.args[0]) if self.args else ""


class RewardError(CountdownSelfPlayError, ValueError):
    """Reward function that did not return finite numbers; the message names the function and the row."""


class GameError(CountdownSelfPlayError, RuntimeError):
    """Result of a game, proposer or domain that does not fit the round; the message names the fault and the remedy."""


class CheckpointError(CountdownSelfPlayError, RuntimeError):
    """Checkpoint that is missing, incomplete or does not fit the run that resumes from it."""


class RunFolderError(CountdownSelfPlayError, OSError):
    """Run folder that is in use by another run or cannot be written; the message names the file and the remedy."""


class ExportError(CountdownSelfPlayError, RuntimeError):
    """Exported policy that differs from the trained one; the message names its folder."""


class CollapseError(CountdownSelfPlayError, RuntimeError):
    """Exhausted rollbacks of the collapse guard; the message names the last trip and the last healthy checkpoint."""


class MissingExtraError(CountdownSelfPlayError, ImportError):
    """Optional dependency that is absent; the message names the extra that installs it."""


class GenerationError(CountdownSelfPlayError, RuntimeError):
    """Failure of the generation backend to sample or take new weights; the message names the attempts."""


class CheckerError(CountdownSelfPlayError, RuntimeError):
    """Failure to start the processes that verify answers; the message contains the last failure."""


def shortened(text: str, most: int = 60) -> str:
    """Return `text`, cut to `most` characters including a final "..." if it is longer."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
