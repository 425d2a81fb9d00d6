"""The pages that people read: HTML from the same reads as the REST API."""
