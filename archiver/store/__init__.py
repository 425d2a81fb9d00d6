"""The object store and the road into it: stores, codec, spool, reader. Knows keys and bytes, not RayJobs."""
