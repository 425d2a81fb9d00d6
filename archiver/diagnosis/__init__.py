"""Why a RayJob died: evidence in, a verdict with cited lines out. Pure: no service, no clock, no I/O but rule files."""

from archiver.diagnosis.advice import advise
from archiver.diagnosis.engine import diagnose
from archiver.diagnosis.evidence import Evidence, LogSource
from archiver.diagnosis.loader import RuleError, load_ruleset
from archiver.diagnosis.ruleset import Ruleset
from archiver.diagnosis.verdict import Advice, Citation, Symptom, Verdict

__all__ = [
    "Advice",
    "Citation",
    "Evidence",
    "LogSource",
    "RuleError",
    "Ruleset",
    "Symptom",
    "Verdict",
    "advise",
    "diagnose",
    "load_ruleset",
]
