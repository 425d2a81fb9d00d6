"""Real object-store servers for tests, and a proxy that makes them fail."""
