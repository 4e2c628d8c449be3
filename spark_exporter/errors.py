"""The exporter's errors. Each has a one-line message and leaves the target unchanged.

::

    ExportError                 the root
    ├── SourceError             the source is not a store, cannot be read, or has changed during the export
    ├── DamagedRecords          damage was found and `--strict` was given
    ├── TargetError             the target cannot be written, or is not an export target
    │   ├── TargetBusy          another run owns the target; the message names it
    │   └── TargetMismatch      the target was created with another schema version, layout or source
    ├── SchemaError             a JSON Schema cannot be read, or has no matching column type
    └── MissingPackage          a package of the extra is not installed
"""

# ruff: noqa: N818  an error is named after what has happened


class ExportError(Exception):
    """The root. Its text is one line with cause and remedy."""


class SourceError(ExportError):
    """The source is not a store, cannot be read, or has changed during the export."""


class DamagedRecords(ExportError):
    """Damage was found and `--strict` was given."""


class TargetError(ExportError):
    """The target cannot be written, or is not an export target."""


class TargetBusy(TargetError):
    """Another run owns this target."""


class TargetMismatch(TargetError):
    """The target was created with another schema version, layout or source."""


class SchemaError(ExportError):
    """A JSON Schema cannot be read, or has no matching column type."""


class MissingPackage(ExportError):
    """A required package is not installed."""
