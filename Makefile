# Every target sets up .venv by itself when needed; `make test PYTHON=python3.13` with another Python.
PYTHON ?= python3
PY := .venv/bin/python
READY := .venv/.ready
SIDE_BY_SIDE := -n 3 --dist loadfile --no-loadscope-reorder  # a file at a time, in the order of tests/conftest.py; three, because many tests wait for processes of their own
export OMP_NUM_THREADS ?= 1
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: demo test test-fast test-long coverage lint docs tour proofs siege mutants density bench clean

demo: $(READY)  ## Train the two-step game and show its greedy team reward.
	$(PY) -m marl.run scenarios/two_step_game.yaml

test: lint  ## Lint, types, layers and all tests but those that repeat others at length.
	$(PY) -m pytest $(SIDE_BY_SIDE) -m "not long" --durations=15

test-fast: lint  ## The same without the slow tests and without Ray.
	$(PY) -m pytest $(SIDE_BY_SIDE) -m "not slow and not ray and not long"

test-long: $(READY)  ## Those that repeat others at length: a new environment, every scenario of VMAS, more kills.
	$(PY) -m pytest $(SIDE_BY_SIDE) -m long --durations=15

coverage: $(READY)  ## Which lines the quick tests execute, with pages of all files in build/coverage/html.
	$(PY) -m pytest $(SIDE_BY_SIDE) -m "not slow and not ray and not long" -p tools.quick_coverage --coverage-html

lint: $(READY)  ## Style, types, the layer rule and how dense the code may be.
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports
	$(PY) -m tools.density --check

docs: $(READY)  ## The site, into build/site (open build/site/index.html).
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

tour: $(READY)  ## Run the commands of docs/tour.md and put what they print into it.
	$(PY) docs/tour.py

proofs: $(READY)  ## Learning proofs; ONLY=name runs one, MINUTES=30 the cheapest for so long. Skips what a replay shows to be fresh.
	$(PY) -m proofs $(if $(ONLY),--only $(ONLY)) $(if $(MINUTES),--cheapest --minutes $(MINUTES))

siege: $(READY)  ## Kills, damaged and forged files, odd input; ONLY=kills runs one kind, N=50 so many cases. Goes on where it was.
	$(PY) -m siege $(if $(ONLY),--only "$(ONLY)") $(if $(N),-n $(N))

mutants: $(READY)  ## Break the code on purpose and count what the tests notice; N=300 SEED=0. Goes on where it was stopped.
	$(PY) -m mutation $(if $(N),--n $(N)) $(if $(SEED),--seed $(SEED))

density: $(READY)  ## Branches, lines and comments of the package, against their limits; what one PPO step runs through.
	$(PY) -m tools.trace_step
	$(PY) -m tools.density --check

bench: $(READY)  ## Throughput, as ratios from one run.
	$(PY) benchmarks/throughput.py
	$(PY) benchmarks/fast_envs.py
	$(PY) benchmarks/updates.py

$(READY): pyproject.toml constraints.txt
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet -c constraints.txt -e '.[test]'
	touch $(READY)

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache
