"""How two real processes are started, and how a worker ends; as a program it is one of the processes."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

CONFIGS = Path(__file__).parents[2] / "accelerate_configs"


def started(command, **environment):
    """`python *command`, when it has ended, in the environment of a launch on a CPU with `environment` added. It has
    no deadline but pytest's own: how long it takes is up to the machine."""
    inherited = {name: value for name, value in os.environ.items() if name != "ACCELERATE_USE_CPU"}
    inherited |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([sys.executable, *command], env={**inherited, **environment}, capture_output=True, text=True)


def torchrun(worker, job, options=(), processes=2, **environment):
    """Processes of `worker`. --standalone: torchrun binds a free port by itself and keeps it."""
    command = ["-m", "torch.distributed.run", "--standalone", "--local_addr", "127.0.0.1"]
    command += ["--nproc_per_node", str(processes), *options, str(worker), job]
    return started(command, ACCELERATE_USE_CPU="true", **environment)


def launched_under(engine, worker, job, processes=2):
    """Processes of `worker` under an engine. The shipped configs name port 0, which accelerate replaces by a free
    one at the moment at which it binds it."""
    if engine == "alone":
        return started([str(worker), job])
    if engine == "ddp":
        return torchrun(worker, job, processes=processes)
    command = ["-m", "accelerate.commands.accelerate_cli", "launch", "--config_file", CONFIGS / f"cpu_{engine}.yaml"]
    command += ["--num_processes", processes]
    # the variable would turn DeepSpeed off
    on_cpu = {} if engine.startswith("zero") else {"ACCELERATE_USE_CPU": "true"}
    return started([*map(str, command), str(worker), job], **on_cpu)


def ranks_of(engine, worker, output, processes=2, **job):
    """What `main` of tests.distributed.<worker>, or <module>:<function>, returned on each process under an engine; the
    engine "alone" is one process without a launch."""
    import pytest

    if engine.startswith("zero"):
        pytest.importorskip("deepspeed", reason="pip install 'countdown-selfplay[deepspeed]'")
    process = launched_under(engine, __file__, json.dumps({"worker": worker, "output": str(output), **job}), processes)
    assert process.returncode == 0, process.stderr[-4000:]
    return [json.loads((Path(output) / f"rank{rank}.json").read_text()) for rank in range(processes)]


def leave(code=0):
    """End a worker whose work is done, without the interpreter's shutdown: there a thread of gloo that got no turn on
    a busy core since the last collective ends the process by SIGABRT. The processes leave together, so that none
    closes a connection that the other still reads from."""
    import torch.distributed

    if code == 0 and torch.distributed.is_initialized():
        torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.distributed import fsdp_on_cpu

    fsdp_on_cpu.turn_on()
    job = json.loads(sys.argv[1])
    module, _, function = job.pop("worker").partition(":")
    found = getattr(importlib.import_module(f"tests.distributed.{module}"), function or "main")(**job)
    Path(job["output"], f"rank{os.environ.get('RANK', 0)}.json").write_text(json.dumps(found))
    leave()
