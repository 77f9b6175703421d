"""`python -m onboard.halt`: installed units of earlier releases stop the base by this name.

A rollback, or an upgrade after it, needs this name. The code is `onboard/service/stop_base.py`.
"""

from __future__ import annotations

from onboard.service.stop_base import main

if __name__ == "__main__":
    main()
