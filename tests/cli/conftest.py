"""Commands are called in a process that has loaded torch, so that none says that it loads it, whichever comes first."""

import torch  # noqa: F401
