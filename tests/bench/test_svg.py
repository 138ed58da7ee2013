"""The results as a picture."""

from xml.etree import ElementTree as ET

from bench.suite.samples import Samples
from bench.suite.svg import bar_panel, curve_panel, picture
from tests.bench.results import samples

SVG = "{http://www.w3.org/2000/svg}"


def widths(elements) -> list[float]:
    return [float(ET.fromstring(each).get("width")) for each in elements if each.startswith("<rect")]


def test_bars_are_as_long_as_their_figures_are_large():
    longest, half = widths(bar_panel("title", {"nginx": 100.0, "epp": 50.0}).elements)
    assert half == longest / 2


def test_every_panel_with_figures_is_drawn():
    root = ET.fromstring(picture(samples()))
    titles = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "title"]
    assert titles == ["CPU µs a request, 1 KB", "CPU µs a request, 120 KB"]


def test_a_curve_goes_from_left_to_right_and_up_with_the_cost():
    panel = curve_panel("title", {"epp": [(8.0, 10.0), (64.0, 20.0), (512.0, 40.0)]})
    (line,) = [each for each in panel.elements if each.startswith("<polyline")]
    points = [tuple(map(float, point.split(","))) for point in ET.fromstring(line).get("points").split()]

    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)


def test_growth_is_drawn_for_the_sizes_that_were_measured():
    found = Samples()
    for size, cost in ((1000, 80.0), (4000, 85.0)):
        found.add(f"prompt-{size}", "epp", {"cpu_us": cost})
    root = ET.fromstring(picture(found))
    assert len(list(root.iter(f"{SVG}circle"))) == 2


def test_names_are_escaped():
    ET.fromstring(picture(samples()))
    panel = bar_panel("title", {"<a & b>": 1.0})
    assert ET.fromstring(panel.elements[0]).text == "<a & b>"


def test_a_panel_without_figures_is_empty():
    assert curve_panel("title", {"epp": []}).elements == ()
    assert ET.fromstring(picture(Samples())).tag == f"{SVG}svg"
