"""A module that an engine might be: its import starts a thread."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
