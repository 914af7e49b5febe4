"""Domains of other packages, condensed detachment, and exports to OpenEnv and lm-eval. The core imports
none of them."""
