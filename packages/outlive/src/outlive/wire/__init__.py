"""What goes between engine and runner: messages, frames, and how values are encoded."""
