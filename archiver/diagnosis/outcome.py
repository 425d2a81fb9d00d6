"""How the attempt ended, from status fields alone. Not why."""

from dataclasses import dataclass

from archiver.diagnosis.evidence import Evidence
from archiver.diagnosis.shape import as_map, text_at


@dataclass(frozen=True, slots=True)
class Outcome:
    """The words of the two status fields and of Ray's own record, upper case."""

    job: str
    deployment: str
    reason: str

    @property
    def is_success(self) -> bool:
        """Whether every word that there is says that the job did its work."""
        return self.job == "SUCCEEDED" and self.deployment in ("", "COMPLETE") and not self.reason

    @property
    def says_nothing(self) -> bool:
        """Whether no status field speaks of a failure."""
        return self.job in ("", "RUNNING", "PENDING") and self.deployment != "FAILED" and not self.reason

    @property
    def is_stopped(self) -> bool:
        """Whether Ray says that somebody stopped the job."""
        return self.job == "STOPPED"

    @property
    def is_contradictory(self) -> bool:
        """Whether Ray says success and the operator failure."""
        return self.job == "SUCCEEDED" and self.deployment == "FAILED"


def read_outcome(evidence: Evidence) -> Outcome:
    """Ray's own record is asked first: the RayJob's copy of it lags and can freeze."""
    status = as_map(evidence.rayjob_status)
    status = as_map(status.get("status")) or status
    record = as_map(evidence.ray.get("job")) or as_map(evidence.ray.get("job_record"))
    job = text_at(record, "status") or text_at(status, "jobStatus")
    return Outcome(job.upper(), text_at(status, "jobDeploymentStatus").upper(), text_at(status, "reason"))
