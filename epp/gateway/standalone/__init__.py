"""A gateway of our own: a real Envoy relays, and asks which endpoint a request goes to.

Envoy asks over HTTP on a Unix socket (`ext_authz`), routes by `override_host` over a file of endpoints, and
tells of each request's end in a line of its access log. `questions` reads what it asks, `checks` decides,
`lines` reads the log, `bootstrap` and `replies` make Envoy's configuration; `check_protocol` and `process` do
the I/O.
"""
