"""What broke in the tool itself, in one line."""

from __future__ import annotations

import os
import traceback


def internal_error(error: BaseException) -> str:
    """One line that says what broke in the tool and where, for a bug report."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")]
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    said = " ".join(str(error).split())[:200]
    return f"internal error ({type(error).__name__}{': ' + said if said else ''}){where}; please report it"
