"""Code that runs inside a subject: standard library only, for any Python >= 3.9."""
