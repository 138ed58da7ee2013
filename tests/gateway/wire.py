"""A gateway's side of the conversation: messages to a picker in bytes, and its answers as plain values."""

from dataclasses import dataclass

from epp.gateway.messages import messages

M = messages()
MODES = {"NONE": 0, "STREAMED": 1, "BUFFERED": 2, "BUFFERED_PARTIAL": 3, "FULL_DUPLEX_STREAMED": 4}
DESTINATION = "x-gateway-destination-endpoint"
CHAT = (
    (":method", "POST"),
    (":path", "/v1/chat/completions"),
    (":authority", "gateway"),
    ("content-type", "application/json"),
    ("x-request-id", "req-1"),
)


def header_map(headers, field="raw_value"):
    """Headers as Envoy sends them, or in `value` as others may."""
    return M.HeaderMap(
        headers=[
            M.HeaderValue(key=key, **{field: value.encode() if field == "raw_value" else value})
            for key, value in headers
        ]
    )


def struct(values):
    """A dictionary as protobuf's Struct, of strings and lists of strings."""
    return M.Struct(fields=[M.StructEntry(key=key, value=_value(value)) for key, value in values.items()])


def _value(value):
    if isinstance(value, dict):
        return M.Value(struct_value=struct(value))
    if isinstance(value, list):
        return M.Value(list_value=M.ListValue(values=[_value(item) for item in value]))
    return M.Value(string_value=value)


def _metadata(values):
    entries = [M.MetadataEntry(key=key, value=struct(inner)) for key, inner in values.items()]
    return M.Metadata(filter_metadata=entries)


def request_headers(
    headers=CHAT,
    *,
    end=False,
    mode="FULL_DUPLEX_STREAMED",
    response_mode="NONE",
    metadata=None,
    field="raw_value",
    observing=False,
):
    """The head of a request; `mode` None: the gateway does not say its modes."""
    config = (
        None
        if mode is None
        else M.ProtocolConfiguration(request_body_mode=MODES[mode], response_body_mode=MODES[response_mode])
    )
    return M.ProcessingRequest(
        request_headers=M.HttpHeaders(headers=header_map(headers, field), end_of_stream=end),
        protocol_config=config,
        metadata_context=_metadata(metadata or {}),
        observability_mode=observing,
    ).SerializeToString()


def request_body(data=b"", *, end=False):
    return M.ProcessingRequest(request_body=M.HttpBody(body=data, end_of_stream=end)).SerializeToString()


def request_trailers():
    return M.ProcessingRequest(request_trailers=M.HttpTrailers()).SerializeToString()


def response_headers(status="200", headers=(), *, end=False, served=None, name=":status"):
    metadata = {"envoy.lb": {DESTINATION + "-served": served}} if served else {}
    return M.ProcessingRequest(
        response_headers=M.HttpHeaders(headers=header_map([(name, status), *headers]), end_of_stream=end),
        metadata_context=_metadata(metadata),
    ).SerializeToString()


def response_body(data=b"", *, end=False):
    return M.ProcessingRequest(response_body=M.HttpBody(body=data, end_of_stream=end)).SerializeToString()


def response_trailers():
    return M.ProcessingRequest(response_trailers=M.HttpTrailers()).SerializeToString()


@dataclass(frozen=True)
class Told:
    """One answer of the picker.

    `piece` is a part of a body that goes back: data, and whether it ends it; `replaced` what a body becomes.
    """

    kind: str
    headers: dict[str, bytes]
    removed: tuple[str, ...] = ()
    piece: tuple[bytes, bool] | None = None
    metadata: str | None = None
    status: int | None = None
    body: bytes = b""
    replaced: bytes | None = None


def told(message):
    """An answer's bytes, read."""
    response = M.ProcessingResponse.FromString(message)
    kind = response.WhichOneof("one")
    answer = getattr(response, kind)
    if kind == "immediate_response":
        return Told(kind, _set(answer.headers), status=answer.status.code, body=answer.body)
    if kind.endswith("trailers"):
        return Told(kind, {})
    common = answer.response
    changed = common.body_mutation
    mutation = changed.streamed_response
    piece = (mutation.body, mutation.end_of_stream) if changed.HasField("streamed_response") else None
    return Told(
        kind,
        _set(common.header_mutation),
        tuple(common.header_mutation.remove_headers),
        piece,
        _destination(response.dynamic_metadata),
        replaced=changed.body if changed.WhichOneof("one") == "body" else None,
    )


def _set(mutation):
    assert all(option.append_action == 2 for option in mutation.set_headers)
    assert all(option.header.value == "" for option in mutation.set_headers)
    return {option.header.key: option.header.raw_value for option in mutation.set_headers}


def _destination(metadata):
    for group in metadata.fields:
        if group.key == "envoy.lb":
            for entry in group.value.struct_value.fields:
                if entry.key == DESTINATION:
                    return entry.value.string_value
    return None


def kinds(answers):
    return [answer.kind for answer in answers]
