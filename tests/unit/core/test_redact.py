"""Secrets are masked, everything else stays as it is, whatever the chunks."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.core import redact_text
from archiver.core.lines import arrived
from archiver.core.prefilter import HyperscanPrefilter, LiteralPrefilter, prefilter
from archiver.core.redact import HELD_BYTES, Redactor, redact_json
from archiver.core.redact_objects import redact_json_counted
from archiver.core.redact_text import mask_text

DATA = Path(__file__).parent.parent.parent / "data" / "redact"
# Put together here, so that no scanner of source code takes them for real ones.
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
HF = "hf_" + "exampleExampleExampleExample0123456"
JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiJleGFtcGxlIn0.c2lnbmF0dXJlLW5vdC1yZWFs"
HEX40 = "0123456789abcdef" * 2 + "01234567"
KEY_BODY = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"[:64]] * 3 + ["q8d0="]
BEGIN, END = "-----BEGIN " + "PRIVATE KEY-----", "-----END " + "PRIVATE KEY-----"

SECRETS = [
    ("aws-key-id", f"using {AWS} now", AWS),
    (
        "assignment",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    ("signed-url", "GET https://b/x?X-Amz-Signature=abcdef0123456789abcdef", "abcdef0123456789abcdef"),
    (
        "signed-url",
        "https://acct.blob.core.windows.net/c/f?sv=2022&sig=abc%2Bdef0123456789ABCDEFG%3D",
        "abc%2Bdef0123456789ABCDEFG%3D",
    ),
    ("gcp-service-account", '{"private_key_id": "abcdef0123456789", "x": 1}', "abcdef0123456789"),
    ("google-key", "key AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "AIza" + "SyA1234567890abcdefghijklmnopqrstuv"),
    ("azure-key", "AccountName=x;AccountKey=" + "Ab1/" * 20 + "==;Endpoint=y", "Ab1/" * 20 + "=="),
    ("huggingface-token", f"HF_TOKEN {HF}", HF),
    ("github-token", "cloning with ghp_" + "a1B2" * 9, "ghp_" + "a1B2" * 9),
    ("gitlab-token", "glpat-" + "abcDEF123456_-abcDEF", "glpat-" + "abcDEF123456_-abcDEF"),
    ("slack-token", "xoxb-" + "123456789012-abcdefABCDEF", "xoxb-" + "123456789012-abcdefABCDEF"),
    ("sk-token", "openai key sk-" + "proj-Ab3dEfGhIjKlMnOpQrStUv", "sk-" + "proj-Ab3dEfGhIjKlMnOpQrStUv"),
    ("vendor-token", "dapi" + "0123456789abcdef" * 2, "dapi" + "0123456789abcdef" * 2),
    ("jwt", f"got {JWT}", JWT),
    ("authorization", "Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ("authorization", '"authorization": "Bearer abcd1234efgh"', "abcd1234efgh"),
    ("bearer-token", "curl -H 'x: bearer abcdef0123456789abcdef'", "abcdef0123456789abcdef"),
    ("url-password", "postgresql://trainer:s3cr3t-pa55@db.internal:5432/runs", "s3cr3t-pa55"),
    ("url-password", "redis://:hunter2@cache:6379/0", "hunter2"),
    ("assignment", "password=hunter2", "hunter2"),
    ("assignment", 'DB_PASSWORD: "correct horse, battery"', "correct horse, battery"),
    ("assignment", "  'client_secret': 'abc(def)'", "abc(def)"),
    ("assignment", "export RAY_AUTH_TOKEN=simple", "simple"),
    ("assignment", f'{{"wandb_api_key": "{HEX40}"}}', HEX40),
    ("assignment", r'{"log": "{\"env_vars\": {\"MY_SECRET\": \"zzz\"}}"}', "zzz"),
    ("assignment", "https://x/y?access_token=abc123def456ghi789&z=1", "abc123def456ghi789"),
    ("assignment", "os.environ['API_KEY'] = 'abc'", "abc"),
    ("flag", f"train.py --wandb-api-key {HEX40} --lr 1", HEX40),
    ("private-key", f"key={BEGIN}\\n{KEY_BODY[0]}\\n{KEY_BODY[3]}\\n{END} ok", KEY_BODY[0]),
]
HARMLESS = [
    "eos_token='<|endoftext|>' pad_token=[PAD] bos_token_id=1 max_tokens: 4096 num_input_tokens=512",
    "    token = os.environ['HF_TOKEN']",
    "    password = getpass.getpass()",
    "login(token=token, password=self.password, api_key=None)",
    "def connect(password: str, token: Optional[str] = None) -> None:",
    "KeyError: 'token'",
    "ValueError: Invalid token: unexpected",
    "time per output token: 12.3ms, tokens/s: 4512.7",
    'MountVolume.SetUp failed for volume "hf" : secret "hf-token" not found',
    "imagePullSecrets: [{name: regcred}] secretName: hf-token-2024",
    "secretKeyRef: {name: hf, key: token}",
    "HF_TOKEN=${HF_TOKEN} PASSWORD=*** API_KEY=<redacted> SECRET=",
    "http://10.0.0.2:8265/api/jobs/x@y and user@host:22",
    "sk-learn-contrib-package-name-here installed; task-sk-abc",
    "Authorization: required",
    "bearer of good news: authentication-was-successful",
    "WorkerID: 4b50ae38ef79c99fb194b2d869240012fe2f752b9ec334e000fdab4e",
    "-Dray.redis.password= -Dray.home=/home/ray",
    "tokenizer = AutoTokenizer.from_pretrained('meta/llama')",
]


def mask(text: bytes) -> tuple[bytes, Counter[str]]:
    redactor = Redactor()
    pieces = [redactor.feed(arrived(text, 1)), redactor.flush()]
    return b"".join(piece.text for piece in pieces if piece), redactor.counts


@pytest.mark.parametrize(
    ("rule", "line", "secret"), SECRETS, ids=[f"{rule}-{number}" for number, (rule, *_) in enumerate(SECRETS)]
)
def test_a_secret_is_masked_and_counted(rule: str, line: str, secret: str) -> None:
    masked, counts = mask(line.encode())
    assert secret.encode() not in masked
    assert masked.decode().count(f"‹masked:{rule}›") == counts[rule] == 1
    # what stands around it is evidence, and stays
    start = line.index(secret) if rule != "private-key" else line.index(BEGIN)
    assert masked.decode().startswith(line[:start])


@pytest.mark.parametrize("line", HARMLESS)
def test_what_only_sounds_like_a_secret_stays(line: str) -> None:
    assert mask(line.encode()) == (line.encode(), Counter())


@pytest.mark.parametrize("path", sorted(DATA.glob("*.log")), ids=lambda path: path.name)
def test_ordinary_logs_are_not_touched(path: Path) -> None:
    text = path.read_bytes()
    assert len(text) > 500
    assert mask(text) == (text, Counter())


@given(st.data())
def test_any_chunking_gives_the_same_text_and_counts(data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.sampled_from([line for _, line, _ in SECRETS] + HARMLESS + KEY_LINES), max_size=8))
    text = "\n".join(lines).encode()
    wanted, counts = mask(text)
    redactor, pieces, start = Redactor(), [], 0
    while start < len(text):
        size = data.draw(st.integers(1, 80))
        pieces.append(redactor.feed(arrived(text[start : start + size], 1)))
        start += size
    pieces.append(redactor.flush())
    given_out = [piece for piece in pieces if piece]
    assert b"".join(piece.text for piece in given_out) == wanted
    assert b"".join(piece.raw.text for piece in given_out) == text
    assert redactor.counts == counts


KEY_LINES = [BEGIN, *KEY_BODY, END]


@pytest.mark.parametrize("prefix", ["", "\x1b[36m(Worker pid=1293)\x1b[0m ", "    "])
def test_a_key_over_many_lines_is_masked_line_by_line(prefix: str) -> None:
    text = "\n".join(["before", *(prefix + line for line in KEY_LINES), "after"]) + "\n"
    masked, counts = mask(text.encode())
    lines = masked.decode().splitlines()
    assert lines[0] == "before"
    assert lines[1:6] == [prefix + BEGIN, *[prefix + "‹masked:private-key›"] * 4][:5]
    assert lines[-2:] == [prefix + END, "after"]
    assert len(lines) == text.count("\n")
    assert counts == {"private-key": 1}


def test_a_resumed_redactor_is_still_inside_the_key() -> None:
    first = Redactor()
    first.feed(arrived("\n".join(KEY_LINES[:2]).encode() + b"\n", 1))
    assert first.in_key
    second = Redactor(in_key=True)
    masked = second.feed(arrived("\n".join(KEY_LINES[2:]).encode() + b"\n", 1))
    assert masked is not None
    assert KEY_BODY[0].encode() not in masked.text
    assert not second.in_key


def test_a_piece_that_begins_inside_a_key_is_masked() -> None:
    redactor = Redactor(begins_inside=True)
    masked = redactor.feed(arrived("\n".join([*KEY_BODY[:3], "ordinary line", KEY_BODY[0]]).encode() + b"\n", 1))
    assert masked is not None
    lines = masked.text.decode().splitlines()
    assert lines == [*["‹masked:private-key›"] * 3, "ordinary line", KEY_BODY[0]]


def test_a_secret_across_the_pieces_of_a_huge_line_is_masked() -> None:
    redactor, given_out = Redactor(), []
    filler = b"x " * 100_000
    line = filler + HF.encode() + b" " + filler + b"password=hunter2\n"
    for start in range(0, len(line), 7919):
        piece = redactor.feed(arrived(line[start : start + 7919], 1))
        given_out.append(piece.text if piece else b"")
        assert redactor.held is None or len(redactor.held.text) <= 2 * HELD_BYTES
    masked = b"".join(given_out)
    assert redactor.counts == {"huggingface-token": 1, "assignment": 1}
    assert HF.encode() not in masked
    assert masked.startswith(filler)


@given(st.binary(max_size=2000))
def test_bytes_of_any_kind_keep_their_lines(text: bytes) -> None:
    masked, counts = mask(text)
    assert masked.count(b"\n") == text.count(b"\n")
    if not counts:
        assert masked == text


@given(st.lists(st.sampled_from([line for _, line, _ in SECRETS] + HARMLESS), max_size=6))
def test_masking_again_changes_nothing(lines: list[str]) -> None:
    once, _ = mask("\n".join(lines).encode())
    assert mask(once) == (once, Counter())


@pytest.mark.parametrize(("rule", "line", "secret"), SECRETS)
def test_both_filters_find_every_secret(rule: str, line: str, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = line.encode()
    assert isinstance(prefilter(), (HyperscanPrefilter, LiteralPrefilter))
    slow = LiteralPrefilter().find(text)
    counts: Counter[str] = Counter()
    assert redact_text.mask_tokens(text, slow, counts) == mask_text(text)[0]
    assert {number for number, _ in prefilter().find(text)} == {number for number, _ in slow}


def test_a_kubernetes_manifest_keeps_its_shape() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps(
                    {"spec": {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}]}}
                )
            },
        },
        "spec": {
            "containers": [
                {
                    "env": [
                        {"name": "HF_TOKEN", "value": "plain"},
                        {"name": "DB_PASSWORD", "value": "12345678"},
                        {"name": "RANK", "value": "0"},
                        {"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "api-token"}}},
                    ],
                    "args": ["--lr", "0.1", f"--token={HF}"],
                    "ports": [{"containerPort": 8265}],
                }
            ],
            "automountServiceAccountToken": True,
            "imagePullSecrets": [{"name": "regcred"}],
        },
    }
    masked, counts = redact_json_counted(pod)
    (container,) = masked["spec"]["containers"]
    assert [entry.get("value") for entry in container["env"]] == [
        "‹masked:secret-field›",
        "‹masked:secret-field›",
        "0",
        None,
    ]
    assert container["env"][3] == pod["spec"]["containers"][0]["env"][3]
    assert container["args"][2] == "--token=‹masked:huggingface-token›"
    assert container["ports"] == [{"containerPort": 8265}]
    assert masked["spec"]["automountServiceAccountToken"] is True
    assert masked["spec"]["imagePullSecrets"] == [{"name": "regcred"}]
    assert "managedFields" not in masked["metadata"]
    applied = json.loads(masked["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"])
    assert applied["spec"]["env"][0]["value"] == "‹masked:secret-field›"
    assert counts == {"secret-field": 3, "huggingface-token": 1}
    assert pod["spec"]["containers"][0]["env"][0]["value"] == "plain"


def test_a_runtime_env_is_masked_in_every_form() -> None:
    env = {"env_vars": {"HF_TOKEN": "plain", "RANK": "0"}, "pip": ["torch"]}
    record = {
        "runtime_env": env,
        "serialized_runtime_env": json.dumps(env),
        "runtimeEnvYAML": 'env_vars:\n  HF_TOKEN: "plain"\n  RANK: "0"\n',
        "driver_exit_code": 1,
    }
    masked = redact_json(record)
    assert masked["runtime_env"]["env_vars"] == {"HF_TOKEN": "‹masked:secret-field›", "RANK": "0"}
    assert json.loads(masked["serialized_runtime_env"])["env_vars"] == {
        "HF_TOKEN": "‹masked:secret-field›",
        "RANK": "0",
    }
    assert masked["runtimeEnvYAML"] == 'env_vars:\n  HF_TOKEN: "‹masked:assignment›"\n  RANK: "0"\n'
    assert masked["driver_exit_code"] == 1


def test_a_secret_object_shows_only_its_names() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"token": "YWJj"}, "stringData": {"user": "me"}}
    assert redact_json(secret) == {
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"token": "‹masked:secret-field›"},
        "stringData": {"user": "‹masked:secret-field›"},
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_values)
def test_masked_json_is_stable(value: object) -> None:
    once = redact_json(value)
    assert redact_json(once) == once
