# make demo: the main job on a real log, with a report. make test: the tests. Each does all its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TRACES ?= ../shared/traces/swf
DEMO_OUT ?= out
TORCH ?= torch==2.13.0

PARTS := cli docs studies parallel slurm

.PHONY: demo test coverage test-all $(PARTS:%=test-%) test-slow warm site pictures check check-slurm bench wheel image clean

PULSE := $(PYTHON) tools/pulse.py
SPACE := $(subst ,, )

# What the demo needs.
$(VENV)/usable: pyproject.toml
	$(PULSE) $(PYTHON) -m venv $(VENV)
	$(PULSE) $(BIN)/python -m pip install --quiet --upgrade pip
	$(PULSE) $(BIN)/python -m pip install -e '.[forecast]'
	touch $@

# Everything, for tests and for development.
$(VENV)/ready: $(VENV)/usable
	$(PULSE) $(BIN)/python -m pip install $(TORCH)
	$(PULSE) $(BIN)/python -m pip install -e '.[dev-all]'
	touch $@

demo: $(VENV)/usable
	@$(BIN)/jobwise warm-up recommended
	@$(BIN)/python examples/demo.py --traces $(TRACES) --out $(DEMO_OUT)

# All that starts no process, runs no study, no engine and no Slurm, and one block of each page of the docs: minutes.
test: warm
	$(BIN)/python -m pytest -m "not ($(subst $(SPACE), or ,$(PARTS) slow))" -n 2 --dist loadgroup

warm: $(VENV)/ready
	@$(BIN)/jobwise warm-up

# How much of the code the tests run, compiled functions left out (they are not seen): COVERAGE.txt.
coverage: $(VENV)/ready
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup --cov=jobwise --cov-report=
	$(BIN)/python -m coverage report > COVERAGE.txt && tail -1 COVERAGE.txt

# The rest, part by part: those that need the command line, the docs, the studies, workers, a Slurm.
$(PARTS:%=test-%): test-%: warm
	$(BIN)/python -m pytest -m "$* and not slow" -n 2 --dist loadgroup

test-all: test $(PARTS:%=test-%)

# The slow twin on whole logs, and what else takes hours.
test-slow: warm
	$(BIN)/python -m pytest -m slow -n 2 --dist loadgroup

# The site of docs, into build/site; a link or a name that leads nowhere is an error.
site: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "written: build/site/index.html"

# The screenshots and films of the docs, in Chromium; with npm also looked at by axe-core.
pictures: $(VENV)/ready
	@if command -v npm > /dev/null; then npm install --silent --prefix build/axe axe-core; fi
	@if command -v npm > /dev/null; then npm install --silent --prefix build/inspector @modelcontextprotocol/inspector; fi
	JOBWISE_PICTURES=$(CURDIR)/docs/images $(BIN)/python -m pytest -q -m "" $(addprefix tests/,test_pictures.py live/sinks/test_panels.py cli/test_inspector.py)

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/words.py

# A real Slurm on this machine beside the simulator; predicted starts and steering on it. INSTALL=1 installs it first (Debian, root).
check-slurm: $(VENV)/ready
	@$(BIN)/python -m benchmarks.check_slurm $(if $(INSTALL),--install) $(if $(SLURM),--slurm $(SLURM))
	@$(BIN)/python -m benchmarks.when_live
	@$(BIN)/python -m benchmarks.steer_order
	@$(BIN)/python -m benchmarks.steer_place
	@$(BIN)/python -m benchmarks.steer_chaos
	@$(BIN)/python -m benchmarks.steer_live
	@$(BIN)/python -m benchmarks.mars_live

# The wheels, pure and with machine code for this kind of computer; the second is installed into a fresh environment and used once.
wheel: $(VENV)/ready
	rm -rf dist
	$(BIN)/python tools/man_page.py
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tools/platform_wheel.py dist/*-none-any.whl
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet dist/*-cp3*.whl
	cd build && wheel/bin/jobwise --version && wheel/bin/jobwise reproduce --help > /dev/null && wheel/bin/jobwise policies > /dev/null

# An image, built on Debian's packages and tried (root; Debian's debootstrap and buildah): build/image/jobwise.tar.
image: $(VENV)/ready
	$(BIN)/python tools/image.py

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks --traces $(TRACES)

clean:
	rm -rf $(VENV) out build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache
