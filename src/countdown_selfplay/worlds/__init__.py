"""Other people's problems: domains of other packages, condensed detachment, exports to OpenEnv and lm-eval. The core
imports none of it."""
