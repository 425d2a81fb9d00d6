"""RayJob Archiver: keeps the evidence of every RayJob that ends on KubeRay, and says why it died."""

__version__ = "0.1.0"
