"""Whether and where messages are traced."""

from dataclasses import dataclass

from headrace.model.names import TRACE_TOPIC


@dataclass(frozen=True, slots=True)
class Trace:
    """Message trace into `topic`. `cloud_region` names the region of a hosted service, whose topic and records differ a little."""

    topic: str = TRACE_TOPIC
    cloud_region: str | None = None

    @property
    def target(self) -> str:
        """The topic that records are sent to."""
        return f"rmq_sys_TRACE_DATA_{self.cloud_region}" if self.cloud_region else self.topic

    @classmethod
    def of(cls, given: "bool | Trace") -> "Trace | None":
        """What a setting means: nothing, the usual topic, or as it says."""
        if isinstance(given, Trace):
            return given
        return cls() if given else None
