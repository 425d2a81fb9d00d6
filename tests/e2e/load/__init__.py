"""Hundreds of RayJobs at once, with a stand-in for Ray, while archiver, API server, S3 and Postgres fail in turn."""
