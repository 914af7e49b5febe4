"""One rank of a two-process run with vLLM; started by torchrun from the tests beside it."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from countdown_selfplay.errors import GenerationError
from tests.distributed import fsdp_on_cpu
from tests.distributed.engine_worker import weights
from tests.trainer.conftest import digest, make_trainer, on_sample
from tests.trainer.test_generation_backends import watch_differences
from tests.trainer.test_round import LORA
from tests.vllm.conftest import keep_plain_weights


def refusal(trainer):
    """What the sentence is when whole weights go to a server that does not take them."""
    backend = trainer.sampler
    url = backend.urls["prover"]
    backend.clients[url].retries = 1
    model = trainer.policies.module.get_base_model()
    trainer.policies.module = type("Module", (), {"policies": {"prover": model}})()
    try:
        backend._send_weights(url, "prover")
    except GenerationError as error:
        return str(error)


def main(output, config):
    send_whole = config.pop("send_whole", False)
    if config["generation_backend"] == "vllm":
        keep_plain_weights()
    extra = {"peft_config": LORA} if config["policy_sharing"] == "lora" else {}
    trainer = make_trainer(output, trainer=extra, **config)
    if send_whole:
        found = refusal(trainer)
    else:
        differences, texts = watch_differences(trainer), []
        on_sample(trainer, lambda role, found: texts.extend(found.texts))
        trainer.train()
        found = {
            "processes": trainer.accelerator.num_processes, "engine": trainer.engine.name,
            "weights": digest(weights(trainer)), "differences": differences, "texts": texts,
        }  # fmt: skip
    (Path(output) / f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    fsdp_on_cpu.turn_on()
    main(**json.loads(sys.argv[1]))
