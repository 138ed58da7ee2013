# Everything runs in .venv, which is made and kept current by the first command that needs it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= auto

.PHONY: run test lint format bench bench-smoke bench-micro policies live-check test-real chaos soak fuzz audit docs clean prometheus

run: $(STAMP)  ## epp on port 8080 in front of four simulated vLLM servers
	$(BIN)/epp demo

test: $(STAMP)  ## every test but those on real vLLM, with the coverage gates
	rm -f .coverage .coverage.*
	@$(MAKE) --no-print-directory prometheus || echo "without Prometheus: its tests are skipped"
	$(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=
	$(BIN)/python .ci/coverage_gate.py

lint: $(STAMP)  ## formatting, lint, types, import rules, Dockerfile
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## epp beside nginx and other routers, about 20 minutes: bench/results/
	$(BIN)/python bench/run.py
	$(BIN)/python bench/report.py
	$(BIN)/python bench/gateway.py --rounds 5 --json bench/results/gateway.json

bench-smoke: $(STAMP)  ## a minute: where ratios and instruction counts slid since bench/results/latest.json
	$(BIN)/python bench/smoke.py

bench-micro: $(STAMP)  ## the decision, the index, the scheduler, pages of metrics and a shadow configuration alone
	$(BIN)/python bench/decision.py
	$(BIN)/python bench/index.py
	$(BIN)/python bench/scheduling.py
	$(BIN)/python bench/scrape.py
	$(BIN)/python bench/shadow.py
	$(BIN)/python bench/gateway_parts.py

policies: $(STAMP)  ## routing policies in simulation against the bars of docs/simulation.md, some minutes
	$(BIN)/python -m bench.policies

live-check: $(STAMP)  ## a real router before eight simulated servers against the simulator, four minutes; exit 1 on a miss
	$(BIN)/python -m bench.live_check

test-real: $(STAMP)  ## two real vLLM servers on CPU; prints one line SKIPPED where it cannot run
	bash tests/real_vllm/run.sh $(BIN)/python

chaos: $(STAMP)  ## two minutes of killed, hanging and lying servers under load; the seed is printed
	$(BIN)/python -m tests.chaos

soak: $(STAMP)  ## a million requests through a router, whose memory, index and decisions must stay flat
	$(BIN)/python -m tests.soak

fuzz: $(STAMP)  ## a minute of coverage-guided fuzzing for each parser; what it learns is kept in .fuzz/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt atheris
	$(BIN)/python -m tests.fuzz

audit: $(STAMP)  ## known vulnerabilities of the pinned versions; needs a source of advisories
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pip-audit
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r constraints.txt

prometheus: .tools/usr/bin/promtool  ## Debian's Prometheus, unpacked and not installed, for the tests of deploy/monitoring

FETCH = apt-get -qq -o APT::Sandbox::User=root download prometheus
.tools/usr/bin/promtool:
	mkdir -p .tools/deb
	cd .tools/deb && { $(FETCH) || { apt-get -qq update && $(FETCH); }; }
	dpkg -x .tools/deb/prometheus_*.deb .tools
	rm -rf .tools/deb

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("epp needs Python 3.11 or newer; set PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,all]'
	touch $@

clean:
	rm -rf $(VENV) .venv-vllm .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info .fuzz
