"""In a process that has loaded torch no command says that it loads it, whichever test comes first."""

import torch  # noqa: F401
