"""What the guard did, as an alert of a tracker that has alerts."""

from __future__ import annotations

import logging
import sys
from typing import Any

logger = logging.getLogger(__name__)


def alert(trainer: Any, title: str, text: str, level: str = "warn") -> None:
    """On the main process, where `report_to` names trackio and its run has begun: an alert beside its curves (level:
    info, warn or error). Nothing elsewhere: wandb and tensorboard have the metrics, and the warning is in the log."""
    trackio = sys.modules.get("trackio")  # the tracker's callback has imported it
    if trackio is None or "trackio" not in trainer.args.report_to or not trainer.processes.main:
        return
    try:
        if trackio.context_vars.current_run.get() is not None:
            trackio.alert(title=title, text=text, level=trackio.AlertLevel(level))
    except Exception as error:  # an old version without alerts, a lost server: neither may stop a rollback
        logger.warning("trackio took no alert (%s: %s).", type(error).__name__, error)
