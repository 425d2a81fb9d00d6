"""Structured evidence as typed facts with time, place and origin. Not what they mean: rules say that."""

from collections.abc import Iterator
from dataclasses import dataclass

from archiver.diagnosis.evidence import Evidence, Json
from archiver.diagnosis.lines import parse_time
from archiver.diagnosis.shape import as_int, as_map, as_text, at, first_text, maps, text_at

FACTS_LIMIT = 5000


@dataclass(frozen=True, slots=True)
class Fact:
    """One field of one object. `line` is the 1-based place of the object in its source; `reason` the machine word."""

    kind: str
    field: str
    reason: str
    text: str
    source: str
    line: int = 1
    object: str = ""
    role: str = ""
    time: float | None = None


def collect_facts(evidence: Evidence) -> list[Fact]:
    """All facts, at most the limit, most authoritative sources first."""
    parts = (
        _rayjob(evidence),
        _pods(evidence),
        _nodes(evidence),
        _workloads(evidence),
        _ray(evidence),
        _events(evidence),
    )
    found: list[Fact] = []
    for part in parts:
        for fact in part:
            if len(found) >= FACTS_LIMIT:
                return found
            found.append(fact)
    return found


def _rayjob(evidence: Evidence) -> Iterator[Fact]:
    status = evidence.rayjob_status or {}
    status = as_map(status.get("status")) or status
    time = _time(status, "endTime", "startTime")
    for field in ("jobStatus", "jobDeploymentStatus", "reason"):
        if value := text_at(status, field):
            yield Fact("rayjob", field, value, f"{field}: {value}", "rayjob_status", 1, "rayjob", "", time)
    if message := text_at(status, "message"):
        yield Fact("rayjob", "message", "", message, "rayjob_status", 1, "rayjob", "", time)
    if text_at(evidence.rayjob_status, "metadata", "deletionTimestamp") or text_at(status, "deletionTimestamp"):
        yield Fact("rayjob", "deletionTimestamp", "deleted", "deletionTimestamp is set", "rayjob_status", 1, "rayjob")
    if at(evidence.rayjob_spec, "suspend") is True or at(evidence.rayjob_spec, "spec", "suspend") is True:
        yield Fact("rayjob", "suspend", "true", "suspend: true", "rayjob_spec", 1, "rayjob")
    for condition in maps(at(status, "rayClusterStatus", "conditions")):
        yield from _condition(condition, "cluster-condition", "rayjob_status", 1, object_name="raycluster")


def _pods(evidence: Evidence) -> Iterator[Fact]:
    for line, pod in enumerate(evidence.pods, 1):
        status = as_map(pod.get("status")) or pod
        role = first_text(pod, "role") or _role_of(pod)
        name = first_text(pod, "name", "pod") or text_at(pod, "metadata", "name") or f"{role or 'pod'}"
        where = ("pods", line, f"pod/{name}", role)
        time = _time(pod, "time", "startTime") or _time(status, "startTime")
        for field in ("reason", "message"):
            if value := text_at(status, field):
                reason = value if field == "reason" else text_at(status, "reason")
                yield Fact("pod", field, reason, f"{field}: {value}", *where, time)
        if text_at(pod, "metadata", "deletionTimestamp") or text_at(pod, "deletionTimestamp"):
            yield Fact("pod", "deletionTimestamp", "deleted", "deletionTimestamp is set", *where, time)
        for condition in maps(at(status, "conditions")):
            yield from _condition(condition, "pod-condition", "pods", line, object_name=f"pod/{name}", role=role)
        for container in _containers(pod, status):
            yield from _container(container, role, name, line)


def _role_of(pod: Json) -> str:
    labels = as_map(at(pod, "metadata", "labels"))
    if kind := text_at(labels, "ray.io/node-type"):
        return kind
    return "submitter" if text_at(labels, "job-name") or text_at(labels, "batch.kubernetes.io/job-name") else ""


def _containers(pod: Json, status: Json) -> Iterator[tuple[Json, str]]:
    for key in ("containers", "containerStatuses"):
        for container in maps(pod.get(key)) if key == "containers" else maps(status.get(key)):
            yield container, "container"
    for key in ("initContainers", "initContainerStatuses"):
        for container in maps(pod.get(key)) if key == "initContainers" else maps(status.get(key)):
            yield container, "init-container"
    for container in maps(status.get("ephemeralContainerStatuses")):
        yield container, "container"


def _container(pair: tuple[Json, str], role: str, pod: str, line: int) -> Iterator[Fact]:
    container, kind = pair
    name = text_at(container, "name") or "container"
    states: list[tuple[str, Json]] = [("", container)]
    for key in ("state", "lastState"):
        for phase in ("terminated", "waiting"):
            if state := as_map(at(container, key, phase)):
                states.append((f"{key}.{phase}.", state))
    for prefix, state in states:
        yield from _container_state(state, kind, f"containers[{name}].{prefix}", (role, pod, line, name))


def _container_state(state: Json, kind: str, prefix: str, where: tuple[str, str, int, str]) -> Iterator[Fact]:
    role, pod, line, name = where
    reason, code, message = text_at(state, "reason"), as_int(state.get("exitCode")), text_at(state, "message")
    object_name, time = f"pod/{pod}/{name}", _time(state, "finishedAt", "startedAt")
    said = f"reason: {reason}, exitCode: {code if code is not None else '-'}, container {name} of the {role or '?'} pod"
    if message:
        said = f"{said}, message: {message}"
    if reason:
        yield Fact(kind, f"{prefix}reason", reason, said, "pods", line, object_name, role, time)
    elif message:
        yield Fact(kind, f"{prefix}message", "", said, "pods", line, object_name, role, time)
    if code is not None and code != 0:
        yield Fact(
            f"{kind}-exit", f"{prefix}exitCode", str(_signal_code(code)), said, "pods", line, object_name, role, time
        )
    restarts = as_int(state.get("restartCount"))
    if restarts:
        text = f"restartCount: {restarts}, container {name} of the {role or '?'} pod"
        yield Fact("restart", f"{prefix}restartCount", str(restarts), text, "pods", line, object_name, role, time)


def _signal_code(code: int) -> int:
    """Ray gives a signal as a negative number, a shell as 128 + n: both become 128 + n."""
    return 128 - code if -64 <= code < 0 else code


def _condition(
    condition: Json, kind: str, source: str, line: int, *, object_name: str, role: str = ""
) -> Iterator[Fact]:
    name, status = text_at(condition, "type"), text_at(condition, "status")
    reason, message = text_at(condition, "reason"), text_at(condition, "message")
    if not name and not reason:
        return
    text = f"{name}={status}, reason: {reason}, message: {message}"
    time = _time(condition, "lastTransitionTime", "time")
    yield Fact(kind, f"{name}={status}", reason or name, text, source, line, object_name, role, time)


def _nodes(evidence: Evidence) -> Iterator[Fact]:
    for line, entry in enumerate(evidence.node_conditions, 1):
        node = first_text(entry, "node", "name") or text_at(entry, "metadata", "name") or "node"
        conditions = list(maps(entry.get("conditions"))) or list(maps(at(entry, "status", "conditions"))) or [entry]
        for condition in conditions:
            yield from _condition(condition, "node", "node_conditions", line, object_name=f"node/{node}")
        for taint in [*maps(entry.get("taints")), *maps(at(entry, "spec", "taints"))]:
            key = text_at(taint, "key")
            text = f"taint {key}={text_at(taint, 'value')}:{text_at(taint, 'effect')}"
            time = _time(taint, "timeAdded")
            yield Fact("taint", "taint", key, text, "node_conditions", line, f"node/{node}", "", time)


def _workloads(evidence: Evidence) -> Iterator[Fact]:
    for line, workload in enumerate(evidence.workloads, 1):
        name = text_at(workload, "metadata", "name") or text_at(workload, "name") or "workload"
        for condition in maps(at(workload, "status", "conditions")) or maps(workload.get("conditions")):
            yield from _condition(condition, "workload", "workloads", line, object_name=f"workload/{name}")


def _events(evidence: Evidence) -> Iterator[Fact]:
    for line, event in enumerate(evidence.k8s_events, 1):
        reason = text_at(event, "reason")
        message = first_text(event, "message", "note")
        target = as_map(event.get("involvedObject")) or as_map(event.get("regarding"))
        object_name = as_text(event.get("object")) or f"{text_at(target, 'kind').lower()}/{text_at(target, 'name')}"
        time = _time(event, "firstTimestamp", "eventTime", "time", "lastTimestamp")
        kind = "event-normal" if text_at(event, "type") == "Normal" else "event"
        if reason or message:
            yield Fact(kind, "message", reason, f"{reason}: {message}", "k8s_events", line, object_name, "", time)


def _ray(evidence: Evidence) -> Iterator[Fact]:
    yield from _ray_job(as_map(evidence.ray.get("job")) or as_map(evidence.ray.get("job_record")))
    for line, task in enumerate(rows(evidence.ray.get("tasks")), 1):
        if error := text_at(task, "error_type"):
            text = f"task {text_at(task, 'name')}: {error}: {text_at(task, 'error_message')}"
            time = _milliseconds(task, "end_time_ms")
            yield Fact("task", "error_type", error, text, "ray.tasks", line, _id("task", task, "task_id"), "", time)
    for line, actor in enumerate(rows(evidence.ray.get("actors")), 1):
        yield from _actor(actor, line)
    since = as_int(at(evidence.ray, "job", "start_time")) or 0
    for line, worker in enumerate(rows(evidence.ray.get("workers")), 1):
        if 0 < (as_int(worker.get("end_time_ms")) or 0) < since:
            continue  # workers are listed for the whole session: this one died before the job began
        if (reason := text_at(worker, "exit_type")) and not reason.startswith("INTENDED"):
            text = f"worker exit {reason}: {text_at(worker, 'exit_detail')}"
            time, name = _milliseconds(worker, "end_time_ms"), _id("worker", worker, "worker_id")
            role = text_at(worker, "worker_type").lower()
            yield Fact("worker", "exit_type", reason, text, "ray.workers", line, name, role, time)
    for line, node in enumerate(rows(evidence.ray.get("nodes")), 1):
        if text_at(node, "state") == "DEAD":
            text = f"node DEAD: {first_text(node, 'state_message', 'death_reason_message')}"
            reason = text_at(node, "death_reason") or "DEAD"
            name, time = _id("raynode", node, "node_id"), _milliseconds(node, "end_time_ms")
            yield Fact("raynode", "state", reason, text, "ray.nodes", line, name, "", time)
    yield from _ray_events(evidence)


def _ray_job(job: Json) -> Iterator[Fact]:
    time = _milliseconds(job, "end_time")
    for field in ("status", "error_type"):
        if value := text_at(job, field):
            yield Fact("job", field, value, f"{field}: {value}", "ray.job", 1, "job", "", time)
    code = as_int(job.get("driver_exit_code"))
    if code:
        text = f"driver_exit_code: {code}"
        yield Fact("driver-exit", "driver_exit_code", str(_signal_code(code)), text, "ray.job", 1, "job", "", time)
    if message := text_at(job, "message"):
        yield Fact("job", "message", "", message, "ray.job", 1, "job", "", time)


def _actor(actor: Json, line: int) -> Iterator[Fact]:
    class_name = first_text(actor, "class_name", "name")
    name, time = _id("actor", actor, "actor_id"), _milliseconds(actor, "end_time_ms")
    for kind, cause in as_map(actor.get("death_cause")).items():
        reason = text_at(cause, "reason") or as_text(kind)
        message = first_text(cause, "error_message", "formatted_exception_string")
        text = f"actor {class_name}: {reason}: {message}"
        yield Fact("actor", as_text(kind), reason, text, "ray.actors", line, name, class_name, time)


def _ray_events(evidence: Evidence) -> Iterator[Fact]:
    since = (as_int(at(evidence.ray, "job", "start_time")) or 0) / 1000
    for line, event in enumerate(rows(evidence.ray.get("events")), 1):
        label = first_text(event, "label", "eventType", "event_type") or text_at(event, "severity")
        message = text_at(event, "message").replace("\\n", "\n")
        source = first_text(event, "source_type", "sourceType")
        if message:
            stamp = as_text(event.get("timestamp"))
            time = float(stamp) if stamp.isdecimal() and len(stamp) < 12 else parse_time(stamp)
            if time is not None and time < since - 2:
                continue
            yield Fact("ray-event", source, label, message, "ray.events", line, source, "", time)


def rows(value: object) -> list[Json]:
    """Rows of a State API answer, or a plain list."""
    for path in (("data", "result", "result"), ("result", "result"), ("result",), ("rows",), ("events",)):
        if found := at(value, *path):
            return list(maps(found))
    return list(maps(value)) if isinstance(value, list | tuple) else []


def _id(kind: str, row: Json, key: str) -> str:
    return f"{kind}/{text_at(row, key)}"


def _milliseconds(row: Json, key: str) -> float | None:
    value = as_int(row.get(key))
    return value / 1000 if value and 0 < value < 10**14 else None


def _time(value: Json, *keys: str) -> float | None:
    return next((time for key in keys if (time := parse_time(text_at(value, key))) is not None), None)
