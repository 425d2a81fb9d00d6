"""A stand-in for Ray 2.60 that starts in a fraction of a second: jobs, logs and a little state, but no tasks.

Plain Python without packages. What it answers is held to recorded answers of real Ray (tests/contract).
"""
