# The Attention Ledger. Every target makes the environment it needs; nothing but Python 3.11+, make and git is assumed.
#   make book        the site, from the committed goldens: nothing is executed
#   make serve       the site on http://localhost:8000
#   make book EDITION=class   the book without solutions, in _build/class (COURSE=https://github.com/OWNER/NAME for
#                    its links to Colab); serve, pdf and site-archive take EDITION=class, too
#   make test        everything: ruff, unit tests, every output of every page, the site in a browser
#   make test-colab  the goldens under Colab's older stack
#   make notebooks   execute the pages whose code or library changed (ALL=1: every page)
#   make peers       the operators against other libraries' (their own environment)    make bench   the speed table
#   make assignments the problem sets: release for students, solved notebooks, an nbgrader course; with its proof
#   make grade SUBMISSIONS=folder   grade a folder of notebooks (in a sandbox: Linux with bubblewrap)
#   make pdf         the whole book in one PDF    make site-archive   the site in one zip, with its checksum
#   make weigh       a page against a plain Jupyter Book page with ipywidgets: bytes, requests, times (needs npm)
#   make mutants     small changes to ops and costs, one at a time: does a test notice? (half an hour; MODULE=ops/delta
#                    for one module, SAMPLE=100 for so many changes of each; goes on where it was stopped)
#   make figures     take the figures as they are drawn now as what the tests compare with (look at them first)
#   make clean       remove the site and the environments

PYTHON ?= python3
BIN := .venv/bin
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
endif

# the programs of another environment: $(call in,peers)
in = $(BIN:.venv/%=.venv-$(1)/%)

define environment
@"$(PYTHON)" -c "import sys; sys.exit(sys.version_info < (3, 11) and 'The book needs Python 3.11 or newer; this is ' + sys.version.split()[0] + '. Run make PYTHON=/path/to/python3.11')"
@echo "environment $(1): a few minutes, once"
@"$(PYTHON)" -m venv $(1)
@"$(BIN:.venv/%=$(1)/%)/python" -m pip install --quiet --disable-pip-version-check -r $<
@"$(BIN:.venv/%=$(1)/%)/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
@"$(BIN:.venv/%=$(1)/%)/python" -c "open('$(1)/.ready', 'w').close()"
endef

ifneq ($(EDITION),)
ifneq ($(filter test%,$(MAKECMDGOALS)),)
$(error make test proves the book with its solutions; leave EDITION out)
endif
endif

CLASS := $(if $(EDITION),--edition "$(EDITION)")

# pages are executed without a GPU, and on one thread: their matrices are small, and no output depends on it
QUIET := CUDA_VISIBLE_DEVICES= OMP_NUM_THREADS=1

.PHONY: book serve test test-colab notebooks figures pdf site-archive weigh peers bench mutants assignments grade clean

book: .venv/.ready
	@"$(BIN)/python" tools/build.py $(CLASS) $(if $(COURSE),--course "$(COURSE)")

serve: book
	@echo "http://localhost:8000/intro.html"
	@"$(BIN)/python" -m http.server 8000 --bind 127.0.0.1 --directory $(if $(EDITION),_build/class/docs,_build/html)

test: book
	@"$(BIN)/python" tools/browser.py
	@"$(BIN)/python" -m ruff check .
	@"$(BIN)/python" -m ruff format --check .
	$(QUIET) "$(BIN)/python" -m pytest tests notebooks --nbval --nbval-current-env

test-colab: .venv/.ready .venv-colab/.ready
	$(QUIET) "$(BIN)/python" tools/colab.py
	$(QUIET) "$(BIN)/python" -m pytest tests/book/test_live.py -o addopts=--import-mode=importlib

notebooks: .venv/.ready
	$(QUIET) "$(BIN)/python" tools/notebooks.py $(if $(ALL),--all)

pdf: book
	@"$(BIN)/python" tools/browser.py
	@"$(BIN)/python" tools/pdf.py $(CLASS)

site-archive: book
	@"$(BIN)/python" tools/archive.py $(CLASS)

weigh: book
	@"$(BIN)/python" tools/browser.py
	@"$(BIN)/python" tools/weigh.py

figures: .venv/.ready
	@-"$(BIN)/python" -m pytest tests/figures -q --mpl-generate-hash-library=tests/figures/hashes.json > /dev/null
	"$(BIN)/python" -m pytest tests/figures -q

clean:
	rm -rf _build .venv .venv-colab .venv-peers .venv-grading .venv-mutants

peers: .venv/.ready .venv-peers/.ready
	CUDA_VISIBLE_DEVICES= "$(call in,peers)/python" -m pytest tests/peers -o addopts=--import-mode=importlib

bench: .venv/.ready .venv-peers/.ready
	CUDA_VISIBLE_DEVICES= "$(call in,peers)/python" tools/bench.py $(if $(QUICK),--quick)

assignments: .venv-grading/.ready
	$(QUIET) "$(call in,grading)/python" tools/assignments.py
	$(QUIET) "$(call in,grading)/python" -m pytest tests/assignments -o addopts=--import-mode=importlib

grade: .venv-grading/.ready
	@$(QUIET) "$(call in,grading)/python" tools/grade.py "$(SUBMISSIONS)" $(if $(TRUST),--trust)

mutants: .venv-mutants/.ready
	$(QUIET) "$(call in,mutants)/python" tools/mutants.py $(MODULE) $(if $(SAMPLE),--sample $(SAMPLE))

.venv/.ready: requirements.txt pyproject.toml
	$(call environment,.venv)

.venv-%/.ready: requirements-%.txt pyproject.toml
	$(call environment,.venv-$*)
