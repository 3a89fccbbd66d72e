"""Where everything durable is kept: one protocol, several stores, one conformance suite."""
