"""Results as text, pictures and one self-contained page."""
