"""Turns FSDP2 on where accelerate 1.15 refuses it: on a machine without GPUs. A fixture, not a way to train. And
takes from DeepSpeed a faster collective for CPUs, which it would compile first (1 to 2 minutes): gloo does it all.

accelerate picks FSDP only when the device is a GPU or the like; torch's fully_shard itself runs over gloo. Losses and
weights then equal DDP's, which the tests assert.
"""

import os

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin


def turn_on():
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        import deepspeed

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    stock = AcceleratorState.__init__

    def patched(self, *args, fsdp_plugin=None, **kwargs):
        fresh = not AcceleratorState._shared_state
        stock(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fresh and os.environ.get("ACCELERATE_USE_FSDP") == "true":
            plugin = fsdp_plugin or FullyShardedDataParallelPlugin()
            plugin.set_mixed_precision(self._mixed_precision) if self._mixed_precision != "no" else None
            AcceleratorState._shared_state["fsdp_plugin"] = plugin
            for state in (AcceleratorState, PartialState):
                state._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = patched
