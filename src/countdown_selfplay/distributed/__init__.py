"""Engines for one process, DDP, DeepSpeed ZeRO and FSDP2: one class each, with the operations that differ
(clipping, held roles, whole weights for generation, references, contents of a checkpoint). All else is the stock
Trainer's and accelerate's."""
