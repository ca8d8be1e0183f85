"""Upload headers and replies."""

from __future__ import annotations

import pytest
from tests.helpers.wire_captures import recorded
from tests.helpers.wire_elements import read_elements

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.project.upload import (
    FileSizeQuery,
    FileUpload,
    UploadHeaderParser,
    UploadStatus,
    legal_file_name,
    write_upload_reply,
)

SMALL = recorded("07", "request")
QUERY = recorded("08", "size query")
RESUMED = recorded("08", "the rest")


def fed(body: bytes, size: int) -> tuple[FileSizeQuery | FileUpload, bytes]:
    """Give a body in pieces; returns the message and the file's bytes."""
    parser = UploadHeaderParser()
    for at in range(0, len(body), size):
        message = parser.receive_data(body[at : at + size])
        if message:
            return message, parser.leftover + body[at + size :]
    return parser.end_of_body(), parser.leftover


def header(**fields: object) -> bytes:
    values = {"name": "f_1", "max_nbytes": 100, "nbytes": 4, "md5_cksum": "0" * 32, "offset": 0} | fields
    text = "".join(f"<{name}>{value}</{name}>\n" for name, value in values.items() if value is not None)
    return f"<data_server_request>\n<file_upload>\n{text}<data>\n".encode()


@pytest.mark.parametrize("size", [1, 2, 7, 100, 10_000])
def test_a_header_may_be_split_anywhere(size: int):
    message, data = fed(SMALL, size)
    assert isinstance(message, FileUpload)
    assert (message.name, message.max_nbytes, message.nbytes, message.offset) == (
        "shapp_wu1_0_0",
        1_000_000,
        15,
        0,
    )
    assert message.md5_cksum == "ae67e1abf13e216cb7fa9a5560e4a7bd"
    assert message.client_version == 72005
    assert message.xml_signature.startswith("aa47db56")
    assert message.xml_signature.endswith("b754a938\n.")
    assert data == b"HELLO NUMBER 1\n"


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_a_size_query_is_read(size: int):
    message, data = fed(QUERY, size)
    assert message == FileSizeQuery(name="big2_0_0", client_version=72005)
    assert data.strip() in (b"", b"</data_server_request>")


def test_a_resumed_upload_says_where_it_goes_on():
    message, _ = fed(RESUMED, 64)
    assert isinstance(message, FileUpload)
    assert (message.offset, message.nbytes) == (999_311, 3_000_111)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\n\n", b"\x00\xff", b"<data>\n", b"</get_file_size>", b"\r\nx"]
)
def test_the_bytes_behind_the_header_are_the_files(data: bytes):
    for size in (1, 3, 1000):
        assert fed(header() + data, size)[1] == data


def test_an_empty_file_may_come_without_the_line_end_behind_the_tag():
    parser = UploadHeaderParser()
    assert parser.receive_data(header(nbytes=0)[:-1]) is None
    message = parser.end_of_body()
    assert isinstance(message, FileUpload)
    assert (message.nbytes, parser.leftover) == (0, b"")


def test_an_upload_without_signature_and_checksum_is_read():
    message, _ = fed(header(md5_cksum=None, offset=None), 1000)
    assert message == FileUpload(
        name="f_1", xml_signature="", max_nbytes=100, nbytes=4, md5_cksum="", offset=0, client_version=0
    )


def test_the_checksum_is_lower_case():
    message, _ = fed(header(md5_cksum="AB" * 16), 1000)
    assert isinstance(message, FileUpload)
    assert message.md5_cksum == "ab" * 16


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "../../etc/passwd"}, "not a legal file name"),
        ({"name": None}, "not a legal file name"),
        ({"name": ""}, "not a legal file name"),
        ({"name": "a\x00b"}, "not a legal file name"),
        ({"nbytes": None}, "<nbytes> is missing"),
        ({"nbytes": "-1"}, "not a number of bytes"),
        ({"nbytes": "nan"}, "not a number of bytes"),
        ({"nbytes": "1e30"}, "not a number of bytes"),
        ({"max_nbytes": None}, "<max_nbytes> is missing"),
        ({"max_nbytes": "inf"}, "not a number of bytes"),
        ({"offset": "-5"}, "not a number of bytes"),
        ({"offset": "x"}, "not a number of bytes"),
        ({"offset": 5}, "offset 5 lies beyond the 4 bytes"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(fields: dict[str, object], problem: str):
    with pytest.raises(RemoteProtocolError, match=problem) as caught:
        fed(header(**fields), 1000)
    assert caught.value.reply_hint


def test_a_header_without_end_is_refused():
    with pytest.raises(RemoteProtocolError, match="no <data> within 16384 bytes"):
        fed(b"x" * 100_000, 1000)


def test_a_header_that_ends_too_late_is_refused():
    with pytest.raises(RemoteProtocolError, match="no <data> within"):
        fed(header(comment="x" * 20_000), 100_000)


@pytest.mark.parametrize("body", [b"", b"hello", SMALL[:200], QUERY[:150]])
def test_half_a_header_is_refused(body: bytes):
    parser = UploadHeaderParser()
    assert parser.receive_data(body) is None
    with pytest.raises(RemoteProtocolError, match="without <data> or <get_file_size>"):
        parser.end_of_body()


def test_a_header_of_something_else_is_refused():
    with pytest.raises(RemoteProtocolError, match="no <data_server_request>"):
        fed(b"<data>\nabc", 100)


def test_the_parser_reads_one_header_only():
    parser = UploadHeaderParser()
    parser.receive_data(SMALL)
    with pytest.raises(RemoteProtocolError, match="belongs to the file"):
        parser.receive_data(SMALL)


@pytest.mark.parametrize(
    "name", ["a", "wu_7_0_r1804289383_0", "A-b.c~d_1", "x" * 255, "~backup", "-rf", "a.b.c", "9"]
)
def test_legal_file_names(name: str):
    assert legal_file_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a..b",
        "../a",
        ".a",
        "a/b",
        "a\\b",
        "a b",
        "a%2e",
        "x" * 256,
        "é",
        "a\n",
        "a\x00",
        "a:b",
        "²",
    ],
)
def test_illegal_file_names(name: str):
    assert not legal_file_name(name)


def test_replies_hold_what_was_given():
    root = read_elements(
        write_upload_reply(UploadStatus.TRANSIENT_ERROR, message="disk <full> & more\nline", file_size=7)
    )
    assert (root.tag, root.tags) == ("data_server_reply", ["status", "message", "file_size"])
    assert (root.get("status"), root.get("message"), root.get("file_size")) == (
        "1",
        "disk <full> & more line",
        "7",
    )
    assert read_elements(write_upload_reply(UploadStatus.PERMANENT_ERROR)).get("status") == "-1"
