# make run    the whole product on this machine: one process, one URL
# make test   the whole test suite
# make coverage  the engine's tests; fails on a line or branch of the engine that none of them takes
# make check  linters, types, import layers, migrations, deployment checks
# make format put code and templates in form
# make lock   pin the newest allowed version of every dependency
# make clean  remove everything that make has made, the development database included
#
# Nothing has to be installed beforehand but Python 3.11 or newer. PYTHON= chooses another one,
# PORT= another port, and ARGS= goes to pytest.

PYTHON ?= python3
PORT ?= 8000
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed.stamp

# A mail is text, whose indentation its reader sees.
TEMPLATES := git ls-files -- '*.html' ':!*_email.html'

# Everything here is development; a deployment sets its variables itself (docs/production.md).
export DEBUG ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := run
.PHONY: run test coverage check format lock clean install

run: $(INSTALLED)
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python manage.py sagents_demo
	@exec $(BIN)/python manage.py sagents_dev --port $(PORT)

test: $(INSTALLED)
	$(BIN)/python -m pytest $(ARGS)

coverage: $(INSTALLED)
	$(BIN)/python -m pytest tests/engine --cov=sagents_app/engine --cov-branch \
	  --cov-report=term-missing:skip-covered --cov-fail-under=100 $(ARGS)

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(TEMPLATES) | xargs -r $(BIN)/djade --check --target-version 5.2
	$(TEMPLATES) | xargs -r $(BIN)/djhtml --check --tabwidth 2
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	env -i PATH="$$PATH" $$(grep -v '^#' docs/production.env) \
	  $(BIN)/python manage.py check --deploy --fail-level WARNING

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(TEMPLATES) | xargs -r $(BIN)/djade --target-version 5.2
	$(TEMPLATES) | xargs -r $(BIN)/djhtml --tabwidth 2

# Every file that the package index has of a version is pinned by its hash, for each platform and
# Python, so that the lock installs on other machines than the one that made it.
lock: $(INSTALLED)
	$(BIN)/uv pip compile --universal --python-version 3.11 --all-extras --upgrade --no-config \
	  --generate-hashes --no-strip-extras --no-emit-index-url --no-annotate --custom-compile-command 'make lock' \
	  --no-emit-package django-sagents --output-file requirements.lock pyproject.toml

install: $(INSTALLED)

# hatchling, which builds the package, comes out of the lock as well: no build isolation, and so no
# second, unpinned download.
$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Python 3.11 or newer is needed: make PYTHON=python3.12'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo '$(PYTHON) comes without venv. On Debian and Ubuntu: apt-get install python3-venv'; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

clean:
	rm -rf $(VENV) node_modules var staticfiles build dist htmlcov .coverage
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
