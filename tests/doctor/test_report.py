"""How findings are shown."""

from epp.doctor import CODES, Answer, as_dict, as_text, examine, exit_status
from epp.doctor.finding import finding
from tests.doctor.builders import LOAD_ONLY, REFUSED, SETTINGS, seen


def some(code, endpoint="10.0.0.1:8000"):
    return finding(code, endpoint, "seen", "why", "remedy")


def test_the_exit_status_follows_the_worst_finding():
    info, warning, error = some("block-huge"), some("models-refused"), some("engine-asleep")

    assert [exit_status(found) for found in ((), (info,), (info, warning), (warning, error, info))] == [
        0,
        0,
        1,
        3,
    ]


def test_text_is_grouped_by_endpoint_with_the_worst_first():
    pool = [seen(1, probe=Answer(200)), seen(2, version_page=Answer(404))]
    findings = [some("block-huge"), some("engine-asleep"), some("keep-alive-off", "")]

    assert as_text(pool, findings, "plugins.yaml").splitlines() == [
        "configuration: plugins.yaml",
        "",
        "http://10.0.0.1:8000  (vllm 0.32.0, tiny)",
        "  ERROR    engine-asleep",
        "    seen     seen",
        "    why      why",
        "    remedy   remedy",
        "  INFO     block-huge",
        "    seen     seen",
        "    why      why",
        "    remedy   remedy",
        "",
        "http://10.0.0.2:8000  (vllm, tiny)",
        "  fine",
        "",
        "pool and settings",
        "  INFO     keep-alive-off",
        "    seen     seen",
        "    why      why",
        "    remedy   remedy",
        "",
        "1 error, 2 info; docs/doctor.md explains every code",
    ]


def test_long_lines_are_wrapped_and_never_inside_a_word():
    long = finding("engine-asleep", "10.0.0.1:8000", "word " * 40 + "--kv-offloading-size", "w", "r")

    lines = as_text([seen()], [long], "c").splitlines()

    assert max(map(len, lines)) <= 110
    assert any("--kv-offloading-size" in line for line in lines)


def test_an_unreachable_endpoint_is_titled_by_its_url():
    unreachable = seen(health=REFUSED, page=REFUSED, models_list=REFUSED, version_page=REFUSED)

    assert "http://10.0.0.1:8000\n  fine" in as_text([unreachable], [], "c")


def test_nothing_found_is_said_with_what_was_not_asked():
    text = as_text([seen()], examine([seen()], LOAD_ONLY, SETTINGS), "c")

    assert text.endswith(
        "nothing found\nWhether usage tells cached tokens was not checked: --probe sends a completion of one token."
    )


def test_json_has_everything_and_the_exit_status():
    findings = [some("engine-asleep"), some("keep-alive-off", "")]

    assert as_dict([seen(), seen(2, models_list=Answer(404))], findings, "plugins.yaml") == {
        "config": "plugins.yaml",
        "endpoints": [
            {
                "endpoint": "10.0.0.1:8000",
                "url": "http://10.0.0.1:8000",
                "engine": "vllm",
                "version": "0.32.0",
                "models": ["tiny"],
                "probed": False,
            },
            {
                "endpoint": "10.0.0.2:8000",
                "url": "http://10.0.0.2:8000",
                "engine": "vllm",
                "version": "0.32.0",
                "models": None,
                "probed": False,
            },
        ],
        "findings": [
            {
                "code": "engine-asleep",
                "severity": "error",
                "endpoint": "10.0.0.1:8000",
                "seen": "seen",
                "why": "why",
                "remedy": "remedy",
            },
            {
                "code": "keep-alive-off",
                "severity": "info",
                "endpoint": None,
                "seen": "seen",
                "why": "why",
                "remedy": "remedy",
            },
        ],
        "counts": {"error": 1, "warning": 0, "info": 1},
        "exit_status": 3,
    }


def test_codes_are_words_with_hyphens():
    assert [code for code in CODES if code.strip("abcdefghijklmnopqrstuvwxyz-")] == []
