"""One rank of a two-process run with vLLM; started by torchrun from the tests beside it."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.distributed.engine_worker import weights  # it also turns FSDP2 on
from tests.distributed.worker import digest
from tests.trainer.conftest import make_trainer
from tests.trainer.test_generation_backends import watch_differences
from tests.trainer.test_round import LORA
from tests.vllm.conftest import keep_plain_weights


def main(output, config):
    if config["generation_backend"] == "vllm":
        keep_plain_weights()
    extra = {"peft_config": LORA} if config["policy_sharing"] == "lora" else {}
    trainer = make_trainer(output, trainer=extra, **config)
    differences, texts = watch_differences(trainer), []
    rollout = trainer._rollout

    def kept(role, rows):
        result = rollout(role, rows)
        texts.extend(result.texts)
        return result

    trainer._rollout = kept
    trainer.train()
    found = {
        "processes": trainer.accelerator.num_processes,
        "engine": trainer.engine.name,
        "weights": digest(weights(trainer)),
        "differences": differences,
        "texts": texts,
    }
    (Path(output) / f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
