"""RayJobs that die on a real cluster: what is applied, what must be archived of it, how it must be shown."""
