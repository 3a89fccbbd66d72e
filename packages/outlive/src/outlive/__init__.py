"""The place of the outlive runtime: this version holds no code and promises nothing."""

__version__ = "0.0.0"
