# Two commands are enough: `make book` and `make test`. Everything else is a shorter way to one part of them.
PYTHON  ?= $(shell command -v python3.11 || command -v python3)
VENV    ?= .venv
FAMILIES ?=
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
TORCH   := $(shell sed -n 's/.*"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
UV      := uv==0.13.9

.PHONY: book test serve train bench env lock clean

book: $(READY)
	@$(BIN)/python -m rbplib book $(addprefix --family ,$(FAMILIES))

test: $(READY)
	@$(BIN)/python -m pytest

serve: $(READY)
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

train: $(READY)
	@$(BIN)/python -m training --all

bench: $(READY)
	@$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e ".[bench]"
	@$(BIN)/python -m benchmarks

env: $(READY)

# torch comes first and apart, so that each platform may choose its own build of it; the lock carries a hash for the rest
$(READY): requirements.lock pyproject.toml
	@echo "installing into $(VENV)"; date +%s > .install-began
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	    || { echo "Python 3.11 is needed: remove $(VENV) and run make PYTHON=/path/to/python3.11"; exit 1; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check --progress-bar on $(UV) $(TORCH)
	@$(BIN)/uv pip install --python $(BIN)/python -r requirements.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-build-isolation --no-deps -e .
	@echo $$(( $$(date +%s) - $$(cat .install-began) )) > $@; rm .install-began
	@echo "installed in $$(cat $@) s"

lock:
	uv pip compile -q --no-header --python-version 3.11 --no-emit-package torch --generate-hashes \
	    $(addprefix --extra ,book flow test) pyproject.toml -o requirements.lock
	@{ echo "# The versions of requirements.lock without hashes, for pip inside conda; written by \`make lock\`."; \
	   sed -n 's/^\([A-Za-z0-9._-]*==[^ \\]*\).*/\1/p' requirements.lock; } > constraints.txt

clean:
	rm -rf _build book/_executed results .snakemake logs
