"""The outside world of a subject: an issue tracker, a payments service, a person to ask."""
