"""`countdown-selfplay push`: upload the trained roles of a run to the Hugging Face Hub, with cards and report."""

from __future__ import annotations

from pathlib import Path

from ..config.recipes import underscored
from ..data.run_files import check_run
from .plain import parser_of

EPILOG = """\
examples: countdown-selfplay push runs/tiny-joint --dry_run
          countdown-selfplay push runs/tiny-joint --repo_id me/countdown --private

Each role becomes a separate repository, REPO_ID-ROLE (default: your name and that of the run's folder). Its card
holds base model, licence, the table before and after, the settings, the command and code that loads it. An adapter
goes up alone if its base has a name on the hub, and else merged into the base. Paths of this machine are cut down to
their last part. What goes up is first written to RUN/push, and a dry run ends there. Log in with `hf auth login`."""


def main(argv: list[str]) -> int:
    """Write the folders and upload them, unless it is a dry run. Returns 0."""
    parser = parser_of("push", EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--repo_id", metavar="NAME", help="repository, such as me/countdown; the role is added")
    parser.add_argument("--base_model", metavar="ID", help="hub id of the weights that the run started from")
    parser.add_argument("--private", action="store_true", help="make the repositories private")
    parser.add_argument("--dry_run", action="store_true", help="write RUN/push and upload nothing")
    options = parser.parse_args([underscored(argument) for argument in argv])
    check_run(options.run)  # before what takes seconds to import
    from ..training.upload import push

    push(**vars(options))
    return 0
