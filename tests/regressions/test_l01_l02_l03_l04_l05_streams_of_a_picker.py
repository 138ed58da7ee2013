"""L01 (AG p1864): malformed JSON killed the sidecar. L02 (AG p1955): an answer without a request crashed.
L03 (GIE i2585): headers were lost when a body followed. L04 (GIE p2593): dynamic metadata was dropped.
L05 (agentgateway i1444, GIE i2936): one endpoint handled of several.
"""

import json

from tests.director.core import TIERED, Pool
from tests.gateway.stream import BODY, Stage
from tests.gateway.wire import CHAT, DESTINATION, request_body, request_headers, response_headers

PINNED = TIERED.replace(
    "schedulingProfiles:",
    """\
- {type: header-based-testing-filter}
- {type: max-score-picker, name: two, parameters: {maxNumOfEndpoints: 2}}
schedulingProfiles:""",
).replace(
    "  plugins:\n  - {",
    "  plugins:\n  - {pluginRef: header-based-testing-filter}\n  - {pluginRef: two}\n  - {",
    1,
)


def test_malformed_json_is_400_and_other_streams_live():
    stage = Stage(n=1)
    other = stage.stream()
    other.say(request_headers())

    [broken] = stage.stream().say(request_headers(), request_body(b"{", end=True))
    answers = other.say(request_body(BODY, end=True))

    assert broken.status == 400
    assert json.loads(broken.body)["error"]["type"] == "invalid_request_error"
    assert answers[0].metadata == "10.0.0.1:8000"


def test_an_answer_without_a_request_gets_an_empty_answer():
    stage = Stage(n=1)

    [answer] = stage.stream().say(response_headers())

    assert (answer.kind, answer.headers, answer.removed) == ("response_headers", {}, ())
    assert stage.records == []


def test_plugins_see_the_headers_of_a_request_with_a_body():
    stage = Stage(pool=Pool(n=3, config=PINNED))
    headers = (*CHAT, ("test-epp-endpoint-selection", "10.0.0.3"))

    answers = stage.stream().say(request_headers(headers), request_body(BODY, end=True))

    assert answers[0].metadata == "10.0.0.3:8000"


def test_header_and_metadata_name_the_same_endpoints_the_best_first():
    stage = Stage(pool=Pool(n=3, config=PINNED))
    first = stage.stream().say(request_headers(), request_body(BODY, end=True))[0].metadata.split(",")[0]

    again = stage.stream().say(request_headers(), request_body(BODY, end=True))[0]

    assert again.headers[DESTINATION].decode() == again.metadata
    told = again.metadata.split(",")
    assert told[0] == first  # it holds the prefix, and scores highest
    assert len(set(told)) == 2
