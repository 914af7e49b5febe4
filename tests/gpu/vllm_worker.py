"""A run with vLLM in a process of its own: an engine stays as long as its process, and only one of them may sleep."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from countdown_selfplay.generation.colocate import Colocate
from tests.trainer.conftest import make_trainer, rounds, weights
from tests.trainer.test_generation_backends import watch_differences
from tests.trainer.test_round import LORA


def keep_first_weights():
    """The fault that the comparison must see: an engine that is pushed to in the first round only."""
    push = Colocate.push
    Colocate.push = lambda self, name, role: push(self, name, role) if self.context.key()[1] == 0 else False


def watch_sleep(trainer):
    """Bytes of the device that each sleep frees."""
    freed, engine = [], trainer.sampler.generation.llm
    sleep = engine.sleep

    def watched(*args, **kwargs):
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0]
        sleep(*args, **kwargs)
        freed.append(torch.cuda.mem_get_info()[0] - free)

    engine.sleep = watched
    return freed


def main(output, config, stale=False):
    if stale:
        keep_first_weights()
    extra = {"peft_config": LORA} if config["policy_sharing"] == "lora" else {}
    trainer = make_trainer(output, trainer=extra, **config)
    freed = watch_sleep(trainer) if config.get("vllm_enable_sleep_mode") else []
    differences, before = watch_differences(trainer), weights(trainer)
    trainer.train()
    after = weights(trainer)
    found = {
        "moved": sorted({key.partition(":")[0] for key in before if not torch.equal(before[key], after[key])}),
        "names": sorted(trainer.policies.weight_names), "device": trainer.accelerator.device.type,
        "differences": differences, "freed": freed, "rounds": rounds(output),
    }  # fmt: skip
    (Path(output) / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
