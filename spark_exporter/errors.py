"""The exporter's errors. Each has a one-line message and leaves the target unchanged.

::

    ExportError                 the root
    ├── SourceError             what is named is no store, cannot be read, or has changed under us
    ├── DamagedRecords          damage was found and `--strict` was given
    ├── TargetError             the target cannot be written, or is not ours
    │   ├── TargetBusy          another run is on the same target; says who
    │   └── TargetMismatch      the target was made with another schema version, layout or source
    ├── SchemaError             a JSON Schema cannot be read, or says what no column can be
    └── MissingPackage          a package of the extra is not installed
"""

# ruff: noqa: N818  an error is named after what has happened


class ExportError(Exception):
    """The root. Its text is one line that says cause and cure."""


class SourceError(ExportError):
    """What is named is no store, cannot be read, or has changed under us."""


class DamagedRecords(ExportError):
    """Damage was found where none is allowed."""


class TargetError(ExportError):
    """The target cannot be written, or is not ours."""


class TargetBusy(TargetError):
    """Another run is on this target."""


class TargetMismatch(TargetError):
    """The target was made with another schema version, layout or source."""


class SchemaError(ExportError):
    """A JSON Schema cannot be read, or says what no column can be."""


class MissingPackage(ExportError):
    """A package that this needs is not installed."""
