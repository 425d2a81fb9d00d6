"""What is logged on a terminal."""

import structlog

from archiver.telemetry import configure_logging


def test_a_traceback_on_a_terminal_shows_no_variables(capsys):
    before = structlog.get_config()
    try:
        configure_logging("info", "text")
        try:
            password = "hunter2-from-a-frame"
            raise ValueError(f"refused {len(password)}")
        except ValueError:
            structlog.get_logger().exception("broke")
        said = capsys.readouterr()
    finally:
        structlog.configure(**before)
    text = said.out + said.err
    assert "ValueError: refused 20" in text
    assert "hunter2" not in text.replace('password = "hunter2-from-a-frame"', "")
