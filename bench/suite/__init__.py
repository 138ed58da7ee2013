"""The benchmark suite: `python bench/run.py` measures, `report.py` writes it up, `smoke.py` compares.

Pure: `stats`, `bodies`, `plan`, `samples`, `bars`, `results`, `table`, `svg`, `progress`, and the parsing in
`proc`. With hands: `tools` (the C programs), `programs` (what is installed), `stacks` (how each is started),
`processes`, `measuring` (one session), `campaign` (all of them), `machine`.
"""
