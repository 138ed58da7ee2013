"""A router's run on record: everything that reaches the decision core, in order, and what it decided.

`recorded` writes it while the router runs, `epp.simulate.replay` drives another core with it. What is on
record of a prompt are its block hashes and lengths; of headers what a decision read, credentials as digests.
"""
