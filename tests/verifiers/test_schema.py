"""verifier.toml: what is read, and what mistakes are told about."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from envkit.failure import UserError
from envkit.verifiers.schema import KINDS, CellCheck, load_checks, parse_checks
from envkit.verifiers.toml_lines import line_of

HEAD = 'schema_version = "1"\n'


def fails(text: str) -> str:
    with pytest.raises(UserError) as caught:
        parse_checks(HEAD + text, "tests/verifier.toml")
    return str(caught.value)


def test_paths_are_counted_from_filesystem_and_kept_inside() -> None:
    text = '[[check]]\nid = "a"\nkind = "file"\npath = "reports/./q3.xlsx"\n'
    assert parse_checks(HEAD + text).check[0].path == "filesystem/reports/q3.xlsx"  # type: ignore[union-attr]
    for path in ("../x", "/etc/passwd", "/filesystem/../etc/passwd", "", "a/"):
        assert "path" in fails(text.replace("reports/./q3.xlsx", path))


def test_values_keep_their_toml_types() -> None:
    text = '[[check]]\nid = "a"\nkind = "cell"\npath = "m.xlsx"\ncell = "B7"\nvalue = {}\n'
    for written, value in {"true": True, "1": 1, "1.5": 1.5, '"1"': "1", "2025-01-31": dt.date(2025, 1, 31)}.items():
        check = parse_checks(HEAD + text.format(written)).check[0]
        assert isinstance(check, CellCheck)
        assert check.value == value
        assert type(check.value) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[check]]\nid = "a"\nkind = "cel"\n', "line 2: check 'a': unknown kind 'cel' (did you mean 'cell'?)"),
        ('[[check]]\nid = "a"\n', "kind is required"),
        (
            '[[check]]\nid = "a"\nkind = "answer"\nnumber = {value = 1, unt = "EUR"}\n',
            "line 5: check 'a', number.unt: unknown key (did you mean 'unit'?)",
        ),
        (
            '[[check]]\nid = "a"\nkind = "answer"\ncontain = ["x"]\n',
            "line 5: check 'a', contain: unknown key (did you mean 'contains'?)",
        ),
        ('[[check]]\nid = "a"\nkind = "answer"\n', "an answer check needs"),
        ('[[check]]\nid = "a"\nkind = "answer"\nregex = ["("]\n', "not a regular expression"),
        ('[[check]]\nid = "a"\nkind = "cell"\npath = "m.xlsx"\nvalue = 1\n', "say which cell"),
        (
            '[[check]]\nid = "a"\nkind = "cell"\npath = "m.xlsx"\ncell = "B7"\nrow_label = "x"\nvalue = 1\n',
            "in one way",
        ),
        ('[[check]]\nid = "a"\nkind = "cell"\npath = "m.xlsx"\ncell = "B7"\n', "needs value"),
        ('[[check]]\nid = "a b"\nkind = "answer"\nmax_words = 5\n', "line 3"),
        ('[[check]]\nid = "a"\nkind = "answer"\nmax_words = 5\nweight = -1\n', "line 6"),
        ('[[check]]\nid = "a"\nkind = "answer"\nmax_words = 5\nweight = 0\n', "weight above 0"),
        (
            '[[check]]\nid = "a"\nkind = "answer"\nmax_words = 5\n[[check]]\nid = "a"\nkind = "answer"\n'
            "max_words = 5\n",
            "two checks have the id 'a'",
        ),
        (
            'scorin = "x"\n[[check]]\nid = "a"\nkind = "answer"\nmax_words = 5\n',
            "line 2: scorin: unknown key (did you mean 'scoring'?)",
        ),
        ("", "check"),
        ("[[check", "not valid TOML"),
        ('[[check]]\nid = "a"\nkind = "calendar"\nsummary = "x"\nstart = "2025-01-01"\n', "without quotes"),
        ('[[check]]\nid = "a"\nkind = "calendar"\nsummary = "x"\ntime_zone = "Berlin"\n', "IANA"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, said: str) -> None:
    message = fails(text)
    assert message.startswith("tests/verifier.toml")
    assert said in message


def test_all_mistakes_are_told_at_once() -> None:
    message = fails('[[check]]\nid = "a"\nkind = "x"\n[[check]]\nid = "b"\nkind = "y"\n')
    assert "2 mistake(s)" in message
    assert "line 2" in message
    assert "line 5" in message


def test_a_file_that_is_no_text_is_a_user_error(tmp_path: Path) -> None:
    path = tmp_path / "verifier.toml"
    with pytest.raises(UserError, match="can't be read"):
        load_checks(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="can't be read"):
        load_checks(path)


def test_every_kind_has_a_reference_and_a_judge() -> None:
    from envkit.verifiers.kinds import JUDGES

    assert set(JUDGES) == {kind for kind, check in KINDS.items() if not check.outside}
    for kind in KINDS.values():
        assert kind.__doc__
        assert len(kind.__doc__) > 60


def test_lines_are_found_in_nested_and_odd_toml() -> None:
    text = (
        'a = """\n[not]\nb = 1\n"""\n'  # 1-4
        "[t]\n"  # 5
        "x = [1,\n  {k = 'v]', m = 2},\n  3]\n"  # 6-8
        "# [[check]]\n"  # 9
        "[[t.u]]\n"  # 10
        "a.b = 1\n"  # 11
        "[[t.u]]\n"  # 12
        '"q r" = "\\"[[x]]"\n'  # 13
        "[t.u.w]\n"  # 14
        "z = 2025-01-01 10:00:00\n"  # 15
    )
    assert line_of(text, ("t", "x", 1, "m")) == 7
    assert line_of(text, ("t", "x", 2)) == 8
    assert line_of(text, ("t", "u", 0, "a", "b")) == 11
    assert line_of(text, ("t", "u", 1, "q r")) == 13
    assert line_of(text, ("t", "u", 1, "w", "z")) == 15
    assert line_of(text, ("t", "u", 1, "w", "gone")) == 14
    assert line_of(text, ("b",)) is None


def test_the_documentation_s_examples_are_read() -> None:
    page = (Path(__file__).parents[2] / "docs" / "verifier.md").read_text()
    examples = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    checks = [text for text in examples if "[[check]]" in text]
    assert len(checks) >= 2
    for text in checks:
        parse_checks(text if text.startswith("schema_version") else HEAD + text)
