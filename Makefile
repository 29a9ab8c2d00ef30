# The Attention Ledger. Every target makes the environment it needs; nothing but Python 3.11+, make and git is assumed.
#   make book        the site, from the committed goldens: nothing is executed
#   make serve       the site on http://localhost:8000
#   make test        everything: ruff, unit tests, every output of every page, the site in a browser
#   make test-colab  the goldens under Colab's older stack
#   make notebooks   execute the pages whose code or library changed (ALL=1: every page)
#   make peers       the operators against other libraries' (their own environment)    make bench   the speed table
#   make pdf         the whole book in one PDF    make site-archive   the site in one zip, with its checksum
#   make figures     take the figures as they are drawn now as what the tests compare with (look at them first)
#   make clean       remove the site and the environments

PYTHON ?= python3
BIN := .venv/bin
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
endif

# pages are executed without a GPU, and on one thread: their matrices are small, and no output depends on it
QUIET := CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1

.PHONY: book serve test test-colab notebooks figures pdf site-archive peers bench clean

book: .venv/.ready
	@"$(BIN)/python" tools/build.py

serve: book
	@echo "http://localhost:8000/intro.html"
	@"$(BIN)/python" -m http.server 8000 --bind 127.0.0.1 --directory _build/html

test: book
	@"$(BIN)/python" tools/browser.py
	@"$(BIN)/python" -m ruff check .
	@"$(BIN)/python" -m ruff format --check .
	$(QUIET) "$(BIN)/python" -m pytest tests notebooks --nbval --nbval-current-env

test-colab: .venv/.ready .venv-colab/.ready
	$(QUIET) "$(BIN)/python" tools/colab.py

notebooks: .venv/.ready
	$(QUIET) "$(BIN)/python" tools/notebooks.py $(if $(ALL),--all)

pdf: book
	@"$(BIN)/python" tools/browser.py
	@"$(BIN)/python" tools/pdf.py

site-archive: book
	@"$(BIN)/python" tools/archive.py

figures: .venv/.ready
	@-"$(BIN)/python" -m pytest tests/figures -q --mpl-generate-hash-library=tests/figures/hashes.json > /dev/null
	"$(BIN)/python" -m pytest tests/figures -q

clean:
	rm -rf _build .venv .venv-colab .venv-peers

.venv/.ready: requirements.txt pyproject.toml
	@"$(PYTHON)" -c "import sys; sys.exit(sys.version_info < (3, 11) and 'The book needs Python 3.11 or newer; this is ' + sys.version.split()[0] + '. Run make PYTHON=/path/to/python3.11')"
	@echo "environment: a few minutes, once"
	@"$(PYTHON)" -m venv .venv
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@"$(BIN)/python" -c "open('.venv/.ready', 'w').close()"

peers: .venv/.ready .venv-peers/.ready
	CUDA_VISIBLE_DEVICES= "$(BIN:.venv/%=.venv-peers/%)/python" -m pytest tests/peers -o addopts=--import-mode=importlib

bench: .venv/.ready .venv-peers/.ready
	CUDA_VISIBLE_DEVICES= "$(BIN:.venv/%=.venv-peers/%)/python" tools/bench.py $(if $(QUICK),--quick)

.venv-peers/.ready: requirements-peers.txt pyproject.toml
	@"$(PYTHON)" -m venv .venv-peers
	@"$(BIN:.venv/%=.venv-peers/%)/python" -m pip install --quiet --disable-pip-version-check -r requirements-peers.txt
	@"$(BIN:.venv/%=.venv-peers/%)/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@"$(BIN)/python" -c "open('.venv-peers/.ready', 'w').close()"

.venv-colab/.ready: requirements-colab.txt pyproject.toml
	@"$(PYTHON)" -m venv .venv-colab
	@"$(BIN:.venv/%=.venv-colab/%)/python" -m pip install --quiet --disable-pip-version-check -r requirements-colab.txt
	@"$(BIN:.venv/%=.venv-colab/%)/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@"$(BIN)/python" -c "open('.venv-colab/.ready', 'w').close()"
