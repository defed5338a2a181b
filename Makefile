PYTHON ?= python3
VENV := .venv
READHEAD := $(VENV)/bin/readhead
READY := $(VENV)/.installed
DEMO := build/demo
DEMO_BUDGET := demo
DEMO_RUN := --task seq2seq/copy --budget $(DEMO_BUDGET) --seeds 0 --results $(DEMO)/results

.PHONY: all demo test test-all lint board clean
all: test

# The virtual environment with pinned dependencies; made once, and again only when what it is made from changes.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

.venv: $(READY)

# A fixed-vector LSTM against Bahdanau's attention, trained side by side, scored, verified and drawn.
demo: $(READY)
	$(READHEAD) references --task seq2seq/copy --results $(DEMO)/results
	@$(READHEAD) run lstm $(DEMO_RUN) & lstm=$$!; \
	 $(READHEAD) run bahdanau $(DEMO_RUN) & bahdanau=$$!; \
	 wait $$lstm || { kill $$bahdanau; exit 1; }; wait $$bahdanau
	$(READHEAD) verify $(DEMO)/results
	$(READHEAD) leaderboard --results $(DEMO)/results --board $(DEMO)/leaderboard.md
	@echo
	@echo "The table:   $(DEMO)/leaderboard.md"
	@echo "The picture: $$(ls $(DEMO)/results/plots/*length*.svg $(DEMO)/results/plots/*size*.svg 2>/dev/null | head -1)"

test: $(READY)
	$(VENV)/bin/python -m pytest -n 2 -m "not slow" -q

# With the tests that take longer: every documented command, in order.
test-all: $(READY)
	$(VENV)/bin/python -m pytest -n 2 -q

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

board: $(READY)
	$(READHEAD) verify
	$(READHEAD) leaderboard

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
