"""Code that runs inside a subject: standard library only, importable under any interpreter >= 3.9."""
