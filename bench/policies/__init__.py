"""Routing policies in simulation against the bars of docs/simulation.md: `make policies`."""
