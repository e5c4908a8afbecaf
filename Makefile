# make demo | tour | test | slow | lint | bench | docs | clean.  The first run makes .venv; later runs reuse it.

PYTHON := $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
STAMPS := .stamps
PACKAGE := pyproject.toml constraints.txt

.PHONY: demo tour test slow lint bench docs clean

demo: $(STAMPS)/test
	$(BIN)/python examples/demo.py

tour: $(STAMPS)/test
	$(BIN)/python examples/tour.py

test: $(STAMPS)/test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

slow: $(STAMPS)/test $(STAMPS)/ray
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

lint: $(STAMPS)/test $(STAMPS)/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

bench: $(STAMPS)/test
	$(BIN)/python benchmarks/trace.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/zoo.py
	$(BIN)/python benchmarks/zoo_cost.py
	$(BIN)/python benchmarks/zoo_inrs.py
	$(BIN)/python benchmarks/editing.py
	$(BIN)/python benchmarks/zoo_storage.py
	$(BIN)/python benchmarks/align.py

docs: $(STAMPS)/docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv $(STAMPS) demo build dist docs/_build .pytest_cache .ruff_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and alone: it is by far the largest download, and everything else builds on it.
$(STAMPS)/torch: constraints.txt
	@echo "making .venv with $(PYTHON)"
	$(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/test $(STAMPS)/dev $(STAMPS)/docs $(STAMPS)/ray: $(STAMPS)/%: $(STAMPS)/torch $(PACKAGE)
	$(PIP) --editable ".[$*]"
	@touch $@
