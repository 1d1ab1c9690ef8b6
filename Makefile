# Two commands are enough: `make book` and `make test`. All else is a program: see book/running.md.
FITS    := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON  := $(or $(PYTHON),$(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c '$(FITS)' 2>/dev/null && command -v $$p && break; done))
VENV    ?= .venv
# What a user gives is a recipe's environment, as it was given: in its text a name would be a command, to make too.
GIVEN   := FAMILIES PAGE FAMILY CORPUS PAPER
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name))))
export PYTHON VENV $(GIVEN)
# Packages are compiled when they are first imported, one module in four, and kept, whatever the shell says.
export PYTHONDONTWRITEBYTECODE :=
IN      := "$$VENV/bin/python"
READY   := $(VENV)/.ready
TORCH   := $(shell sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
PIP     := $(IN) -m pip install -q --no-compile --disable-pip-version-check --progress-bar on
UV      := "$$VENV/bin/uv" pip
NEEDED  := Python 3.11, 3.12 or 3.13 is needed

.PHONY: book page test serve labs paper authors env lock clean

book: $(READY)
	@set -f; set --; for family in $$FAMILIES; do set -- "$$@" --family "$$family"; done; $(IN) -m rbplib book "$$@"

# one page: make page PAGE=02_top1_law FAMILY=nano-qwen2.5, also with CORPUS=docs
page: $(READY)
	@$(IN) -m workflow.pages --page "$$PAGE" --family "$$FAMILY" --corpus "$$CORPUS"

test: $(READY)
	@$(IN) -m pytest -n logical --maxprocesses 8 --no-loadscope-reorder

serve: $(READY)
	@$(IN) -m http.server --bind 127.0.0.1 --directory _build/html 8000

labs: $(READY)
	@set -f; $(IN) book/labs/bundle.py $$FAMILIES

paper: $(READY)
	@set -f; $(IN) -m paper.evening $$PAPER

authors: $(READY)
	@$(IN) -m paper.authors

env: $(READY)

# uv and torch come first and apart: what PyPI gives is hashed in requirements-first.lock, all else in requirements.lock.
# Who names another index or folder to pip, as that of the CPU build, has torch's own wheel from there without a hash.
# An environment that was begun and came to no end is begun anew: what lies in it may be half a package.
$(READY): requirements.lock requirements-first.lock pyproject.toml
	@test -w . || { echo "this folder may not be written: run make in a copy of it that may."; exit 1; }
	@test -x $(IN) || "$$PYTHON" -c '$(FITS)' \
	    || { echo "$(NEEDED) and was not found: install one, or run make PYTHON=/path/to/it"; exit 1; }
	@test -x $(IN) -a ! -e "$$VENV.begun" || { : > "$$VENV.begun" && "$$PYTHON" -m venv --clear "$$VENV"; }
	@$(IN) -c '$(FITS)' || { echo "$(NEEDED): remove $$VENV and run make PYTHON=/path/to/one of them"; exit 1; }
	@$(IN) -c 'import pip' 2>/dev/null || $(IN) -m ensurepip -U
	@echo "installing into $$VENV"; sed -n '/^uv==/,/[^\\]$$/p' requirements-first.lock > .uv.lock
	@$(PIP) --require-hashes -r .uv.lock && rm .uv.lock
	@if [ -n "$$PIP_EXTRA_INDEX_URL$$PIP_FIND_LINKS" ]; then \
	        echo "torch is taken from where pip is told to look, without a hash"; $(PIP) --no-deps $(TORCH); \
	    else $(PIP) --require-hashes -r requirements-first.lock; fi
	@$(UV) install --require-hashes --no-deps --python $(IN) -r requirements.lock
	@$(UV) install -q --python $(IN) --no-build-isolation --no-deps -e .
	@rm -f "$$VENV.begun"; touch $@

# One lock for all Pythons and platforms. Of multiprocess, which has a wheel of other text for each Python, all get one.
ONE_FOR_ALL := multiprocess==0.70.19 --hash=sha256:928851ae7973aea4ce0eaf330bbdafb2e01398a91518d5c8818802845564f45c
COMPILE := uv pip compile -q --no-header --universal --python-version 3.11 --generate-hashes
lock:
	@{ echo "# Every version and hash that the Makefile installs; written by \`make lock\`."; echo "$(ONE_FOR_ALL)"; \
	   $(COMPILE) --config-file uv-lock.toml $(addprefix --no-emit-package ,torch multiprocess) \
	   $(addprefix --extra ,book flow test) pyproject.toml corpora/packages/*.txt; } > .lock && mv .lock requirements.lock
	@{ echo "# The versions of requirements.lock without hashes, for pip inside conda; written by \`make lock\`."; \
	   sed -n 's/^\([A-Za-z0-9._-]*==[^ \]*\).*/\1/p' requirements.lock; } > constraints.txt
	@{ echo "# uv, torch and what PyPI's builds of torch bring, before requirements.lock; written by \`make lock\`."; \
	   echo 'uv==0.13.9' | $(COMPILE) -c constraints.txt -; \
	   echo "$(TORCH)" | $(COMPILE) --no-config -c constraints.txt -; } > requirements-first.lock

clean:
	rm -rf _build book/_executed results .snakemake logs
