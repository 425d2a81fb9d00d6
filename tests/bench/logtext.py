"""A driver's log as a kubelet serves it: lines like Ray's and a training loop's, in the same order in every run."""

import random
from datetime import UTC, datetime

_START = datetime(2026, 3, 1, 12, tzinfo=UTC)
_SHAPES = (
    "\x1b[36m(RayTrainWorker pid={pid}, ip=10.0.{low}.{high})\x1b[0m step {step} loss={loss:.4f} tokens/s={rate:.1f}",
    "{when},{low:03d}\tINFO worker.py:1691 -- Using address 10.0.0.2:6379 set in the environment variable RAY_ADDRESS",
    '  File "/home/ray/anaconda3/lib/python3.11/site-packages/ray/_private/worker.py", line {pid}, in get',
    "\x1b[33m(raylet)\x1b[0m [{when},{low:03d} E {pid} {pid}] node_manager.cc:3064: 1 Workers killed: Worker ID: {ident}",
    "epoch {low} batch {step} grad_norm={loss:.6f} mem={rate:.0f}MiB max_tokens=4096 eos_token=<|endoftext|>",
    "[rank{low}]: NCCL INFO Channel {high}/0 : {low}[{low}] -> {high}[{high}] via P2P/IPC",
)


def lines(count: int) -> list[str]:
    """Texts without times."""
    dice = random.Random(7)
    found = []
    for step in range(count):
        shape = dice.choice(_SHAPES)
        fields = {
            "pid": dice.randrange(100, 99_999),
            "low": dice.randrange(256),
            "high": dice.randrange(256),
            "step": step,
            "loss": dice.random(),
            "rate": dice.random() * 5000,
            "when": f"{_START:%Y-%m-%d %H:%M:%S}",
            "ident": f"{dice.getrandbits(224):056x}",
        }
        found.append(shape.format(**fields))
    return found


def stamped(texts: list[str], repeat: int) -> bytes:
    """The same lines again and again with rising times; a thousand lines a second."""
    second = int(_START.timestamp())
    out = []
    for number in range(len(texts) * repeat):
        moment = datetime.fromtimestamp(second + number // 1000, UTC)
        nanos = number % 1000 * 1_000_000 + number * 7919 % 1_000_000
        out.append(f"{moment:%Y-%m-%dT%H:%M:%S}.{nanos:09d}Z {texts[number % len(texts)]}\n")
    return "".join(out).encode()
