"""The model that a multipart form names, as far as its beginning tells."""

import pytest

from epp.request import model_in_form

TYPE = "multipart/form-data; boundary=XX"


def form(*parts):
    return b"".join(b"--XX\r\n%b\r\n\r\n%b\r\n" % part for part in parts)


MODEL = (b'Content-Disposition: form-data; name="model"', b"whisper")
FILE = (
    b'Content-Disposition: form-data; name="file"; filename="model"\r\nContent-Type: audio/wav',
    b"RIFF\r\n\r\n",
)


@pytest.mark.parametrize(
    "body",
    [
        form(MODEL, FILE) + b"--XX--\r\n",
        form(FILE, MODEL) + b"--XX--\r\n",
        form(MODEL) + b"--XX",
        form((b"content-disposition: form-data; name=model", b"whisper")) + b"--XX",
        form((b'Content-Type: text/plain\r\nContent-Disposition: form-data; name="model"; x=y', b"whisper"))
        + b"--XX",
        b"preamble\r\n" + form(MODEL) + b"--XX",
    ],
)
def test_a_model_that_stands_wholly_in_the_beginning_is_found(body):
    assert model_in_form(TYPE, body) == "whisper"


def test_a_boundary_may_stand_in_quotes_and_among_parameters():
    assert (
        model_in_form('Multipart/Form-Data; charset=utf-8; boundary="XX"', form(MODEL) + b"--XX") == "whisper"
    )


@pytest.mark.parametrize(
    "piece", [b"Content-Disposition:", b"Content-Disposition:;", b"; name=x", b";", b" "]
)
def test_a_line_that_repeats_itself_is_gone_over_once(piece):
    """The model stands behind it: to find that it is no field's head costs no more than its length."""
    evil = (b"Content-Disposition: form-data" + piece * (1_000_000 // len(piece)), b"x")

    assert model_in_form(TYPE, form(evil, MODEL) + b"--XX") == "whisper"


@pytest.mark.parametrize(
    "content_type, body",
    [
        (TYPE, form(FILE) + b"--XX--\r\n"),
        (TYPE, form(MODEL)),  # its end has not come
        (TYPE, form((MODEL[0], b"")) + b"--XX"),
        (TYPE, form((b'Content-Disposition: form-data; name="remodel"', b"x")) + b"--XX"),
        (TYPE, b""),
        ("multipart/form-data", form(MODEL) + b"--XX"),
        ("multipart/mixed; boundary=XX", form(MODEL) + b"--XX"),
        ("application/json", b"{}"),
        ("", b""),
    ],
)
def test_otherwise_no_model_is_known(content_type, body):
    assert model_in_form(content_type, body) is None


def test_the_model_is_never_found_before_its_end_has_come():
    body = form(MODEL, FILE) + b"--XX--\r\n"
    end = body.index(b"whisper") + len(b"whisper\r\n--XX")
    assert [model_in_form(TYPE, body[:cut]) for cut in range(len(body))] == [None] * end + ["whisper"] * (
        len(body) - end
    )
