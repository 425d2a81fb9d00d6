"""The Kubernetes adapter: list-watch, informers, pod logs, single objects, leases. Raw JSON in and out, no decisions."""
