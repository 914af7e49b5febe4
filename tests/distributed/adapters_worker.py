"""One of two processes under an engine: runs that start from an adapter's folder, which end with their exports.

It returns what the main process was told of the exports; the runs lie in the output folder.
"""

from pathlib import Path

from tests.trainer.conftest import make_trainer, ran


def main(output, start, sharings):
    told = {}
    for sharing in sharings:
        folder = Path(output) / sharing
        trainer = ran(make_trainer(folder, model=start, policy_sharing=sharing, max_steps=1))
        told[sharing] = [[path.name, said, right] for path, said, right in trainer.exports.write_last(folder)]
        del trainer
    return told
