"""Our rendition of the legacy lowering beside Tritons that had it; see docs/legacy.md."""
