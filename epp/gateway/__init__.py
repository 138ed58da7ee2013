"""The endpoint picker for gateways that speak Envoy's external processing.

`codec` reads and writes messages, `conversation` knows whose turn it is, `picked` drives the director, and
`server` is the only module that does I/O.
"""
