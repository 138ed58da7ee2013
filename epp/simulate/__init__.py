"""Fleets in virtual time: the shipped director and scheduler over modelled servers.

Four seams part this from a live router: the clock (the time of events), the source of metrics (gauges of the
modelled engines at the last scrape), random numbers (a seed), and a workload that enters below the parser, as
`InferenceRequest` with the hashes of its blocks.
"""
