"""Where points come from; today barriers, announced on a socket."""
