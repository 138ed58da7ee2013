"""The messages of Envoy's external processing and of gRPC's health check, as far as a picker needs them.

The wire carries numbers, not names: these classes live in a pool of their own under names of their own, so
that they collide with no other copy of Envoy's definitions in the process. Fields that are not listed are
skipped when they are read. A map is what it is on the wire, a list of entries.

Sources: envoy/service/ext_proc/v3/external_processor.proto, envoy/config/core/v3/base.proto,
google/protobuf/struct.proto, grpc/health/v1/health.proto.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["HEALTH_SERVICE", "PICKER_SERVICE", "Messages", "messages"]

PICKER_SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"
HEALTH_SERVICE: Final = "grpc.health.v1.Health"

_PACKAGE: Final = "epp.gateway"

# `Message: type field number, …`; `one|` puts the fields that follow into one oneof, `*` repeats a field.
_SCHEMA: Final = """
HeaderValue: string key 1, string value 2, bytes raw_value 3
HeaderMap: *HeaderValue headers 1
HeaderValueOption: HeaderValue header 1, int32 append_action 3
HeaderMutation: *HeaderValueOption set_headers 1, *string remove_headers 2

ListValue: *Value values 1
Value: one|, double number_value 2, string string_value 3, bool bool_value 4, Struct struct_value 5, \
ListValue list_value 6
StructEntry: string key 1, Value value 2
Struct: *StructEntry fields 1
MetadataEntry: string key 1, Struct value 2
Metadata: *MetadataEntry filter_metadata 1

HttpHeaders: HeaderMap headers 1, bool end_of_stream 3
HttpBody: bytes body 1, bool end_of_stream 2
HttpTrailers: HeaderMap trailers 1
ProtocolConfiguration: int32 request_body_mode 1, int32 response_body_mode 2
ProcessingRequest: Metadata metadata_context 8, bool observability_mode 10, \
ProtocolConfiguration protocol_config 11, one|, HttpHeaders request_headers 2, \
HttpHeaders response_headers 3, HttpBody request_body 4, HttpBody response_body 5, \
HttpTrailers request_trailers 6, HttpTrailers response_trailers 7

StreamedBodyResponse: bytes body 1, bool end_of_stream 2
BodyMutation: one|, bytes body 1, StreamedBodyResponse streamed_response 3
CommonResponse: HeaderMutation header_mutation 2, BodyMutation body_mutation 3
HeadersResponse: CommonResponse response 1
BodyResponse: CommonResponse response 1
TrailersResponse: HeaderMutation header_mutation 1
HttpStatus: int32 code 1
ImmediateResponse: HttpStatus status 1, HeaderMutation headers 2, bytes body 3, string details 5
ProcessingResponse: Struct dynamic_metadata 8, one|, HeadersResponse request_headers 1, \
HeadersResponse response_headers 2, BodyResponse request_body 3, BodyResponse response_body 4, \
TrailersResponse request_trailers 5, TrailersResponse response_trailers 6, \
ImmediateResponse immediate_response 7

HealthCheckRequest: string service 1
HealthCheckResponse: int32 status 1
"""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,  # an enum of Envoy's is a number on the wire
    "double": _Field.TYPE_DOUBLE,
}


class Messages:
    """The message classes, as attributes by their names."""

    def __init__(self, classes: dict[str, Any]) -> None:
        self._classes = classes

    def __getattr__(self, name: str) -> Any:
        """The class of this name."""
        try:
            return self._classes[name]
        except KeyError:
            raise AttributeError(name) from None


def messages() -> Messages:
    """A fresh set of classes, in a pool of its own; 2 ms."""
    file = descriptor_pb2.FileDescriptorProto(name="epp/gateway.proto", package=_PACKAGE, syntax="proto3")
    for line in filter(None, _SCHEMA.splitlines()):
        name, _, fields = line.partition(":")
        _add(file.message_type.add(name=name), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    names = [message.name for message in file.message_type]
    return Messages(
        {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{n}")) for n in names}
    )


def _add(message: Any, fields: str) -> None:
    in_oneof = False
    for part in fields.split(","):
        if part.strip() == "one|":
            message.oneof_decl.add(name="one")
            in_oneof = True
            continue
        kind, name, number = part.split()
        field = message.field.add(name=name, number=int(number))
        field.label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
        _set_type(field, kind.removeprefix("*"))
        if in_oneof:
            field.oneof_index = 0


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
