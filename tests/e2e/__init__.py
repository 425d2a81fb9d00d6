"""Tests on a real Kubernetes, a real KubeRay and a real Ray."""
