"""`python -m onboard.halt`: the name by which installed units of earlier releases stop the base.

Kept so that a rollback, and the way back from it, finds its stop. The code is `onboard/service/stop_base.py`.
"""

from __future__ import annotations

from onboard.service.stop_base import main

if __name__ == "__main__":
    main()
