"""What endpoints tell about themselves: metrics pages, models, bytes per token."""

from epp.scrape.engines import Selector
from epp.scrape.models import ModelProbe, ModelProbeSettings, ModelSink, read_models
from epp.scrape.page import CoreNames, Page, PageError, PageReader
from epp.scrape.probing import Fetch, ScrapeError, ScrapeFault, Sleep, fetch_through
from epp.scrape.scraper import Scraper, ScrapeSettings, ScrapeSink

__all__ = [
    "CoreNames",
    "Fetch",
    "ModelProbe",
    "ModelProbeSettings",
    "ModelSink",
    "Page",
    "PageError",
    "PageReader",
    "ScrapeError",
    "ScrapeFault",
    "ScrapeSettings",
    "ScrapeSink",
    "Scraper",
    "Selector",
    "Sleep",
    "fetch_through",
    "read_models",
]
