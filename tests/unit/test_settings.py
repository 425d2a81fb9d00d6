"""Settings are read once, from variables and files; a mistake is a sentence that names the setting and the right one."""

import pytest

from archiver.errors import SettingsError
from archiver.settings import Settings, load_settings, setting_lines


def test_without_any_variable_every_default_holds():
    settings = load_settings({})
    assert settings.hold_seconds == 0
    assert settings.namespaces == ()


def test_a_misspelt_variable_is_named_with_the_right_one():
    with pytest.raises(SettingsError, match=r"no setting ARCHIVER_STROE; did you mean ARCHIVER_STORE\?"):
        load_settings({"ARCHIVER_STROE": "x"})


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("PORT", "70000", "less than or equal to 65535"),
        ("HOLD_SECONDS", "-1", "greater than or equal to 0"),
        ("HOLD_SECONDS", "long", "valid number"),
        ("STORE", "http://bucket", "s3://BUCKET/PREFIX"),
        ("STORE", "s3://", "bucket's name is missing"),
        ("CLUSTER", "a/b", "match pattern"),
        ("TEAM_SOURCES", "label:team,foo", "'foo' is no place"),
        ("LOG_FORMAT", "xml", "'auto', 'text' or 'json'"),
    ],
)
def test_a_value_out_of_range_is_named_with_its_variable(variable, value, words):
    with pytest.raises(SettingsError, match=f"ARCHIVER_{variable} is '{value}'.*{words}"):
        load_settings({f"ARCHIVER_{variable}": value})


def test_lists_are_written_with_commas():
    assert load_settings({"ARCHIVER_NAMESPACES": "a, b,,c"}).namespaces == ("a", "b", "c")


def test_a_secret_can_come_from_a_file(tmp_path):
    file = tmp_path / "url"
    file.write_text("postgresql://u:p@h/db\n")
    settings = load_settings({"ARCHIVER_DATABASE_URL_FILE": str(file)})
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://u:p@h/db"


def test_a_file_that_cannot_be_read_is_named():
    with pytest.raises(SettingsError, match="ARCHIVER_S3_SECRET_KEY_FILE names the file /nowhere"):
        load_settings({"ARCHIVER_S3_SECRET_KEY_FILE": "/nowhere"})


def test_options_of_the_command_line_go_first():
    assert load_settings({"ARCHIVER_PORT": "1"}, port=2).port == 2
    assert load_settings({"ARCHIVER_PORT": "1"}, port=None).port == 1


def test_every_setting_is_printed_with_its_source_and_no_secret():
    environ = {"ARCHIVER_DATABASE_URL": "postgresql://u:hunter2@h:5/db", "ARCHIVER_S3_SECRET_KEY": "hunter2"}
    lines = {line.name: line for line in setting_lines(load_settings(environ, port=9), environ)}
    assert lines.keys() == Settings.model_fields.keys()
    assert lines["database_url"].source == "ARCHIVER_DATABASE_URL"
    assert lines["port"].source == "option"
    assert lines["host"].source == "default"
    assert "hunter2" not in str(lines)


def test_the_settings_object_itself_shows_no_secret():
    assert "hunter2" not in repr(load_settings({"ARCHIVER_S3_SECRET_KEY": "hunter2"}))
