"""What differs between running on one process, under DDP, DeepSpeed ZeRO and FSDP2: one class each, one place to look.

The trainer asks its engine for a handful of things (clip, hold a role, whole weights for generation, references, what
a checkpoint must hold); everything else is the stock Trainer's and accelerate's.
"""
