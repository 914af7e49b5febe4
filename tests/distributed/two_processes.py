"""What the tests with two real processes share: how the processes are started, and how a worker ends."""

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


def torchrun(worker, job, options=(), **environment):
    """Two processes of `worker`. --standalone: torchrun binds a free port by itself and keeps it."""
    command = ["-m", "torch.distributed.run", "--standalone", "--local_addr", "127.0.0.1", "--nproc_per_node", "2"]
    return started([*command, *options, str(worker), job], ACCELERATE_USE_CPU="true", **environment)


def launched_under(engine, worker, job):
    """Two processes of `worker` under an engine. The shipped configs name port 0, which accelerate replaces by a free
    one at the moment at which it binds it."""
    if engine == "ddp":
        return torchrun(worker, job)
    command = ["-m", "accelerate.commands.accelerate_cli", "launch", "--config_file", CONFIGS / f"cpu_{engine}.yaml"]
    # the variable would turn DeepSpeed off
    on_cpu = {} if engine.startswith("zero") else {"ACCELERATE_USE_CPU": "true"}
    return started([*map(str, command), str(worker), job], **on_cpu)


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
