"""Tests, floor by floor."""
